// The counterpart of tests/interop/peer/peer.c on Pollux: the same operations, the same words.
#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/net/address.h"
#include "tests/interop/peer/script.h"
#include "tools/node.h"
#include "tools/options.h"
#include "tools/port_options.h"
#include "tools/verbs_connection.h"

namespace pollux::tools {
namespace {

constexpr uint64_t kReceive = 1ull << 32;  // in wr_id; the rest is its number

// Every call on the worker's core, but for done().
class Peer final : public VerbsConnection::User {
 public:
  explicit Peer(const peer_script& script) : script_(script), memory_(PEER_REGION) {
    peer_fill_memory(&script_, memory_.data());
  }

  absl::Status Start(Node& node) {
    VerbsConnection::Config config;
    config.send_queue = config.receive_queue = PEER_QUEUE;
    config.elements = PEER_ELEMENTS;
    config.param.responder_resources = config.param.initiator_depth = 4;
    config.param.rnr_retry_count = script_.rnr_retry;
    config.private_data = [this] {
      peer_put_memory(reinterpret_cast<uint64_t>(memory_.data()), region_.key, private_.data());
      return absl::Span<const uint8_t>(private_);
    };
    const uint16_t port = static_cast<uint16_t>(std::atoi(script_.service));
    engine::Worker* worker = &node.device().worker();
    auto made = absl::StatusOr<std::unique_ptr<VerbsConnection>>();
    if (script_.address != nullptr) {
      auto address = net::ParseAddress(script_.address);
      if (!address.ok()) return address.status();
      made = VerbsConnection::Connect(worker, &node.manager(), {.address = *address, .port = port},
                                      config, this);
    } else {
      made = VerbsConnection::Listen(worker, &node.manager(), port, config, this);
    }
    if (!made.ok()) return made.status();
    connection_ = *std::move(made);
    return absl::OkStatus();
  }

  std::future<absl::Status> done() { return done_.get_future(); }
  void Destroy() { connection_.reset(); }
  uint64_t Digest() const { return peer_digest(memory_.data()); }

 private:
  absl::Status OnReady() override {
    auto region = connection_->Register(memory_.data(), memory_.size(), script_.access);
    if (!region.ok()) return region.status();
    region_ = *region;
    for (int i = 0; i < script_.receives; ++i) {
      const ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()) + peer_receive_at(&script_, i),
                        script_.receive[i], region_.key};
      if (absl::Status s = connection_->Receive(kReceive | static_cast<uint64_t>(i), sge);
          !s.ok()) {
        return s;
      }
    }
    return absl::OkStatus();
  }

  void OnEstablished(absl::Span<const uint8_t> private_data) override {
    if (script_.address == nullptr) return;
    if (private_data.size() < PEER_PRIVATE) return OnEnded(absl::InternalError("no private data"));
    remote_ = peer_get_memory(private_data.data());
    Next();
  }

  void Next() {
    if (next_ == script_.ops) return connection_->Disconnect();
    ibv_sge sge[PEER_ELEMENTS];
    ibv_send_wr wr{};
    wr.wr_id = static_cast<uint64_t>(next_);
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = sge;
    peer_fill_request(&script_, next_, reinterpret_cast<uint64_t>(memory_.data()), region_.key,
                      &remote_, &wr, sge);
    if (absl::Status status = connection_->Send(wr); !status.ok()) OnEnded(status);
  }

  void OnCompletion(const ibv_wc& wc) override {
    if ((wc.wr_id & kReceive) != 0) {
      if (wc.status == IBV_WC_WR_FLUSH_ERR) return;
      const bool good = wc.status == IBV_WC_SUCCESS;
      const bool imm = good && (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
      std::printf("receive %d %d %u %s %08x\n", static_cast<int>(wc.wr_id & ~kReceive), wc.status,
                  good ? wc.byte_len : 0, imm ? "imm" : "-", imm ? ntohl(wc.imm_data) : 0);
      return;
    }
    std::printf("op %d %s %d\n", next_, script_.op[next_].name, wc.status);
    ++next_;
    Next();
  }

  void OnEnded(const absl::Status& status) override {
    if (status.ok() && script_.address == nullptr) {
      std::printf("ended RDMA_CM_EVENT_DISCONNECTED\n");
    }
    if (!std::exchange(ended_, true)) done_.set_value(status);
  }

  const peer_script script_;
  std::vector<uint8_t> memory_;
  memory::MemoryRegion region_;
  std::array<uint8_t, PEER_PRIVATE> private_{};
  peer_memory remote_{};
  int next_ = 0;
  bool ended_ = false;
  std::promise<absl::Status> done_;
  std::unique_ptr<VerbsConnection> connection_;
};

absl::Status Run(const PortOptions& port, const peer_script& script) {
  if (absl::Status status = CheckPortOptions(port); !status.ok()) return status;
  if (absl::Status status = engine::InitEal(port.eal); !status.ok()) return status;
  auto device = engine::Device::Open(port.Device());
  if (!device.ok()) return device.status();
  auto node = Node::Start(*std::move(device), {});
  if (!node.ok()) return node.status();
  Peer peer(script);
  auto done = peer.done();
  absl::Status status = (*node)->Run([&] { return peer.Start(**node); });
  if (status.ok()) {
    if (script.address == nullptr) std::fprintf(stderr, "listening\n");
    status = done.get();
  }
  (*node)->Run([&] { peer.Destroy(); });
  std::printf("memory %016llx\n", static_cast<unsigned long long>(peer.Digest()));
  (*node)->StopPolling();
  return status;
}

int Main(int argc, char** argv) {
  PortOptions port;
  peer_script script;
  peer_default(&script);
  std::vector<std::string> values;  // the script points into them
  values.reserve(static_cast<size_t>(argc));
  Options options("", "The Pollux side of the verbs interop cases.");
  DeclarePortOptions(options, &port);
  for (const char* name : {"connect", "service-port", "rnr-retry", "access", "receive", "op"}) {
    options.Parsed(name, "VALUE", "see peer/script.h", [&, name](const std::string& text) {
      values.push_back(text);
      return peer_take(&script, name, values.back().c_str()) == 0
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError(text);
    });
  }
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    std::fprintf(stderr, "%s\n", std::string(operands.status().message()).c_str());
    return kExitUsage;
  }
  const absl::Status status = Run(port, script);
  if (status.ok()) return kExitOk;
  std::printf("failed %s\n", std::string(status.message()).c_str());
  return kExitFailure;
}

}  // namespace
}  // namespace pollux::tools

int main(int argc, char** argv) { return pollux::tools::Main(argc, argv); }
