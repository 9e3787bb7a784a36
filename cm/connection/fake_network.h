// A network of CM peers without frames, queue pair 1 or workers. Datagrams and time are simulated;
// the state machines of CM and of the queue pairs are real.
#ifndef POLLUX_CM_CONNECTION_FAKE_NETWORK_H_
#define POLLUX_CM_CONNECTION_FAKE_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cm/connection/environment.h"
#include "cm/manager_impl.h"
#include "cm/wire/mad.h"
#include "stack/base/random.h"
#include "stack/base/types.h"
#include "stack/engine/timer/timing_wheel.h"
#include "stack/verbs/completion_queue.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::cm {

struct Datagram {
  Gid from;
  Gid to;
  MadBuffer mad;
};

class FakeEnvironment;

class FakeNetwork {
 public:
  static constexpr uint64_t kSecond = 1'000'000'000;
  static constexpr uint64_t kFlightNs = 10'000;

  explicit FakeNetwork(uint64_t seed = 1) : random(seed) {}

  // Returns how many copies of a datagram arrive; one by default.
  std::function<int(const Datagram&)> copies_of = [](const Datagram&) { return 1; };
  // Returns how much longer than kFlightNs a copy takes; 0 by default.
  std::function<uint64_t(const Datagram&)> delay = [](const Datagram&) { return uint64_t{0}; };
  std::vector<Datagram> log;  // all sent datagrams, in order
  Random random;
  uint64_t now_ns = 1'000;

  void Send(const Datagram& datagram);
  // Polls all environments and advances time until `done` returns true, nothing is left to do, or
  // `for_ns` have passed. Returns whether `done` returned true.
  bool RunUntil(const std::function<bool()>& done, uint64_t for_ns = 1000 * kSecond);
  void Run(uint64_t for_ns) {
    RunUntil([] { return false; }, for_ns);
  }
  int CountSent(Attribute attribute) const;

 private:
  friend class FakeEnvironment;
  bool PollAll();
  uint64_t NextEvent() const;

  std::vector<FakeEnvironment*> environments_;
  std::multimap<uint64_t, Datagram> in_flight_;
};

class FakeEnvironment final : public Environment {
 public:
  FakeEnvironment(FakeNetwork* network, Gid address, Shard shard = {},
                  kernel::InterfaceClaims* claims = nullptr)
      : addresses{address},
        network_(network),
        shard_(shard),
        claims_(claims),
        wheel_(network->now_ns),
        random_(network->random.Next64()) {
    network->environments_.push_back(this);
  }
  ~FakeEnvironment() override { std::erase(network_->environments_, this); }

  std::vector<Gid> addresses;  // the GID table
  ibv_mtu mtu = IBV_MTU_4096;
  bool resolvable = true;
  bool queue_full = false;
  bool posts_full = false;
  bool moves_fail = false;
  bool moves_held = false;  // the queue pair's owner does not poll
  bool owns_qps = false;    // queue pairs are moved at once
  absl::Status join_status;
  absl::Status attach_status;
  std::multiset<std::pair<Gid, Gid>> joined;  // local address, group
  std::set<std::pair<const verbs::QueuePair*, Gid>> attached;

  void SetClient(Client* client) override { client_ = client; }
  void Wake() override {}  // it is polled in every step anyway
  Shard shard() const override { return shard_; }
  kernel::InterfaceClaims* claims() const override { return claims_; }
  // Posts to another environment of the same address.
  bool Post(uint32_t to, absl::AnyInvocable<void(Client& manager)> work) override;
  const Gid& address() const { return addresses[0]; }
  std::optional<uint8_t> GidIndex(const Gid& address) const override;
  std::optional<Gid> SourceFor(const Gid& to) const override;
  uint64_t ca_guid() const override { return 0x020000FFFE000000 | address().raw[15]; }
  ibv_mtu active_mtu() const override { return mtu; }
  uint64_t now_ns() const override { return network_->now_ns; }
  engine::TimingWheel& wheel() override { return wheel_; }
  Random& random() override { return random_; }
  Counters& counters() override { return counters_; }
  bool SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) override;
  // Writes the MAD without headers.
  size_t EmitFrame(const Gid& from, const Gid& to, const MadBuffer& mad,
                   std::span<uint8_t, kMaxMadFrameBytes> frame) override;
  absl::Status StartResolve(const Gid& from, const Gid& to) override;
  bool IsResolved(const Gid&, const Gid&) override { return resolvable; }
  std::vector<transport::FlightEntry> QpFlight(const engine::Worker*,
                                               verbs::QueuePair*) const override {
    return {};
  }
  std::optional<absl::Status> MoveOwnQp(engine::Worker*, verbs::QueuePair* qp,
                                        const QpMove& move) override {
    return owns_qps ? std::optional(Execute(qp, move)) : std::nullopt;
  }
  void MoveQp(engine::Worker* owner, verbs::QueuePair* qp, const QpMove& move,
              std::shared_ptr<QpLease> lease, absl::AnyInvocable<void(absl::Status)> done) override;
  absl::Status JoinGroup(const Gid& local, const Gid& group) override;
  void LeaveGroup(const Gid& local, const Gid& group) override;
  void AttachGroup(engine::Worker* owner, verbs::QueuePair* qp, const Gid& group, bool attach,
                   std::shared_ptr<QpLease> lease,
                   absl::AnyInvocable<void(absl::Status)> done) override;

  void Receive(const Gid& from, std::span<const uint8_t> mad) { Receive(from, address(), mad); }
  void Receive(const Gid& from, const Gid& to, std::span<const uint8_t> mad) {
    if (client_ != nullptr) client_->OnMad(from, to, mad);
  }

 private:
  friend class FakeNetwork;
  struct PendingCall {
    std::shared_ptr<QpLease> lease;
    absl::AnyInvocable<absl::Status()> work;
    absl::AnyInvocable<void(absl::Status)> done;
  };
  bool Poll();
  absl::Status Execute(verbs::QueuePair* qp, const QpMove& move) const;

  FakeNetwork* network_;
  const Shard shard_;
  kernel::InterfaceClaims* const claims_;
  Client* client_ = nullptr;
  engine::TimingWheel wheel_;
  Random random_;
  Counters counters_;
  std::vector<PendingCall> calls_;                                // to the queue pair's owner
  std::vector<absl::AnyInvocable<void(Client& manager)>> posts_;  // to this environment
};

// A queue pair without a worker, and its completion queue.
struct FakeQp {
  explicit FakeQp(uint32_t qpn, ibv_qp_type type = IBV_QPT_RC)
      : cq(16), qp(Qpn{qpn}, Init(&cq, type), &active) {}
  static verbs::QueuePairInitAttr Init(verbs::CompletionQueue* cq, ibv_qp_type type) {
    verbs::QueuePairInitAttr init;
    init.type = type;
    init.send_cq = init.recv_cq = cq;
    init.cap.max_send_wr = init.cap.max_recv_wr = 4;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    return init;
  }
  verbs::ActiveList active;
  verbs::CompletionQueue cq;
  verbs::QueuePair qp;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_FAKE_NETWORK_H_
