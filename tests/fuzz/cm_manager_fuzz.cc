// Any MADs, in any order, at a server and a client of the connection state machines: nothing they
// say leads out of bounds, and identifiers end when they are destroyed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <span>

#include "cm/connection/fake_world.h"
#include "cm/manager.h"
#include "cm/manager_impl.h"

namespace pollux::cm {
namespace {

constexpr uint32_t kServerAddress = 0xC0000201;  // 192.0.2.1, as in the corpus
constexpr uint32_t kClientAddress = 0xC0000202;
constexpr uint16_t kPort = 20049;
constexpr size_t kMaxMads = 16;
constexpr size_t kLocalIdAt = kMadHeaderBytes;
constexpr size_t kRemoteIdAt = kMadHeaderBytes + 4;

class Peers {
 public:
  Peers() {
    listener_ = *server_->CreateId(RDMA_PS_TCP, [this](const Event& event) { OnEvent(event); });
    if (!server_->Listen(listener_, kPort).ok()) abort();
    client_id_ = *client_->CreateId(RDMA_PS_TCP, [this](const Event& event) { OnEvent(event); });
    if (!client_->ResolveAddr(client_id_, {Gid::FromIpv4(kServerAddress), kPort}, 1).ok()) abort();
    world_.Run(FakeWorld::kFlightNs);
    client_->BindQp(client_id_, nullptr, &client_qp_.qp, 0, [](absl::Status) {});
    world_.Run(FakeWorld::kFlightNs);
  }

  // The communication IDs cannot be guessed, so those of the latest real message stand in for the
  // first bytes' wish.
  void Give(std::span<const uint8_t> bytes) {
    MadBuffer mad{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), mad.size()), mad.begin());
    const uint8_t wish = mad[kMadHeaderBytes - 1];
    if (!world_.log.empty() && (wish & 1) == 0) {
      const MadBuffer& last =
          world_.log[world_.log.size() - 1 - (wish >> 1) % world_.log.size()].mad;
      std::copy_n(&last[kLocalIdAt], 4, &mad[(wish & 2) == 0 ? kRemoteIdAt : kLocalIdAt]);
      std::copy_n(&last[kRemoteIdAt], 4, &mad[(wish & 2) == 0 ? kLocalIdAt : kRemoteIdAt]);
    }
    const bool to_server = (wish & 0x80) == 0;
    FakeEnvironment* to = to_server ? server_environment_ : client_environment_;
    const Gid from = Gid::FromIpv4(to_server ? kClientAddress : kServerAddress);
    to->Receive(from, bytes.size() < kMadBytes ? bytes : std::span<const uint8_t>(mad));
    world_.Run(FakeWorld::kFlightNs * 10);
  }

  void End() {
    client_->DestroyId(client_id_);
    // What is on its way arrives, and nothing follows: no more identifiers come.
    world_.network = [](const Datagram&) { return 0; };
    world_.Run(10 * FakeWorld::kFlightNs);
    for (Id* id : ids_) server_->DestroyId(id);
    world_.Run(5000 * FakeWorld::kSecond);
    if (client_->size() != 0 || server_->size() != 1) abort();
  }

 private:
  void OnEvent(const Event& event) {
    if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
      if (!client_->ResolveRoute(client_id_, 1).ok()) abort();
    } else if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      ids_.insert(event.id);
      Answer(event.id);
    }
  }
  void Answer(Id* id) {
    qps_.push_back(std::make_unique<FakeQp>(static_cast<uint32_t>(0x2000 + qps_.size())));
    server_->BindQp(id, nullptr, &qps_.back()->qp, 0, [this, id](absl::Status status) {
      // The peer may have given up in between; then accepting fails.
      if (status.ok()) server_->Accept(id, {}).IgnoreError();
    });
  }

  FakeWorld world_;
  FakeEnvironment* server_environment_ =
      new FakeEnvironment(&world_, Gid::FromIpv4(kServerAddress));
  FakeEnvironment* client_environment_ =
      new FakeEnvironment(&world_, Gid::FromIpv4(kClientAddress));
  std::vector<std::unique_ptr<FakeQp>> qps_;
  FakeQp client_qp_{0x1000};
  std::unique_ptr<ManagerImpl> server_ = std::make_unique<ManagerImpl>(
      std::unique_ptr<Environment>(server_environment_), ManagerConfig{});
  std::unique_ptr<ManagerImpl> client_ = std::make_unique<ManagerImpl>(
      std::unique_ptr<Environment>(client_environment_), ManagerConfig{});
  Id* listener_ = nullptr;
  Id* client_id_ = nullptr;
  std::set<Id*> ids_;

 public:
  void Connect() { client_->Connect(client_id_, {}).IgnoreError(); }
};

}  // namespace
}  // namespace pollux::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pollux::cm::kMadBytes;
  pollux::cm::Peers peers;
  if (size % 2 == 0) peers.Connect();
  for (size_t at = 0, n = 0; at < size && n < pollux::cm::kMaxMads; at += kMadBytes, ++n) {
    peers.Give({data + at, std::min(kMadBytes, size - at)});
  }
  peers.End();
  return 0;
}
