// CM's environment on a worker: its queue pair 1, time, random numbers and mailboxes.
#ifndef POLLUX_CM_CONNECTION_WORKER_ENVIRONMENT_H_
#define POLLUX_CM_CONNECTION_WORKER_ENVIRONMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "cm/connection/environment.h"
#include "cm/connection/failure_relay.h"
#include "cm/gsi/gsi.h"
#include "stack/engine/loop/worker.h"

namespace pollux::cm {

// Polled by the worker from creation to destruction, which both happen on the worker's core.
class WorkerEnvironment final : public Environment,
                                private engine::Poller,
                                private engine::PortObserver,
                                private StatsProvider {
 public:
  // The environments of all workers of a device, by worker number. Each entry of `environments` is
  // read and written only on the core of its worker.
  struct Siblings {
    std::vector<engine::Worker*> workers;
    std::vector<WorkerEnvironment*> environments;  // null before creation and after destruction
  };
  // Creates the environment of worker `index` of `siblings`.
  static absl::StatusOr<std::unique_ptr<WorkerEnvironment>> Create(
      std::shared_ptr<Siblings> siblings, uint32_t index);
  ~WorkerEnvironment() override;

  void SetClient(Client* client) override { client_ = client; }
  void Wake() override { wakeup().Wake(); }
  Shard shard() const override;
  kernel::InterfaceClaims* claims() const override { return worker_->claims(); }
  bool Post(uint32_t to, absl::AnyInvocable<void(Client& manager)> work) override;
  std::optional<uint8_t> GidIndex(const Gid& address) const override;
  std::optional<Gid> SourceFor(const Gid& to) const override;
  uint64_t ca_guid() const override { return ca_guid_; }
  ibv_mtu active_mtu() const override { return worker_->interface().active_mtu(); }
  uint64_t now_ns() const override { return worker_->now_ns(); }
  engine::TimingWheel& wheel() override { return worker_->wheel(); }
  Random& random() override { return worker_->random(); }
  Counters& counters() override { return counters_; }
  bool SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) override;
  size_t EmitFrame(const Gid& from, const Gid& to, const MadBuffer& mad,
                   std::span<uint8_t, kMaxMadFrameBytes> frame) override;
  absl::Status StartResolve(const Gid& from, const Gid& to) override;
  bool IsResolved(const Gid& from, const Gid& to) override;
  std::vector<transport::FlightEntry> QpFlight(const engine::Worker* owner,
                                               verbs::QueuePair* qp) const override;
  std::optional<absl::Status> MoveOwnQp(engine::Worker* owner, verbs::QueuePair* qp,
                                        const QpMove& move) override;
  void MoveQp(engine::Worker* owner, verbs::QueuePair* qp, const QpMove& move,
              std::shared_ptr<QpLease> lease, absl::AnyInvocable<void(absl::Status)> done) override;
  absl::Status JoinGroup(const Gid& local, const Gid& group) override;
  void LeaveGroup(const Gid& local, const Gid& group) override;
  void AttachGroup(engine::Worker* owner, verbs::QueuePair* qp, const Gid& group, bool attach,
                   std::shared_ptr<QpLease> lease,
                   absl::AnyInvocable<void(absl::Status)> done) override;

 private:
  WorkerEnvironment(std::shared_ptr<Siblings> siblings, uint32_t index)
      : siblings_(std::move(siblings)), index_(index), worker_(siblings_->workers[index]) {}
  bool Poll(uint64_t now_ns) override;
  bool TakeMads();
  void OnPortEvent(uint8_t port_num, ibv_event_type event) override;
  uint16_t VlanOf(const Gid& local) const;
  bool Collect(const StatsQuery& query, Stats* stats) override;
  // Requests that failures of the owner's queue pairs are reported here.
  void Follow(engine::Worker* owner);

  const std::shared_ptr<Siblings> siblings_;
  const uint32_t index_;
  engine::Worker* const worker_;
  uint32_t posts_ = 0;  // in progress
  Client* client_ = nullptr;
  uint64_t ca_guid_ = 0;
  Counters counters_;
  std::unique_ptr<Gsi> gsi_;
  // Read only on this core, by callbacks from other cores.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // One for each worker that owns, or has owned, a queue pair of a connection.
  absl::flat_hash_map<engine::Worker*, std::shared_ptr<FailureRelay>> relays_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_WORKER_ENVIRONMENT_H_
