// What the connection state machines need of the world: datagrams, addresses, time, randomness, and
// someone who moves queue pairs. One implementation stands on a worker, one in the tests.
#ifndef POLLUX_CM_CONNECTION_ENVIRONMENT_H_
#define POLLUX_CM_CONNECTION_ENVIRONMENT_H_

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "cm/connection/handover.h"
#include "cm/gsi/counters.h"
#include "cm/gsi/mad_frame.h"
#include "cm/gsi/shard.h"
#include "cm/wire/mad.h"
#include "stack/base/random.h"
#include "stack/base/stats.h"
#include "stack/base/types.h"
#include "stack/engine/timer/timing_wheel.h"
#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::engine {
class Worker;
}
namespace pollux::verbs {
class QueuePair;
}

namespace pollux::cm {

// Holds as long as a queue pair may be moved on behalf of its identifier. Written on CM's core,
// read on the queue pair's.
struct QpLease {
  std::atomic<bool> valid{true};
};

// One ibv_modify_qp each, in order.
struct QpMove {
  struct Step {
    ibv_qp_attr attr{};
    int mask = 0;
  };
  std::array<Step, 3> steps;
  size_t count = 0;

  void Add(const Step& step) { steps[count++] = step; }
};

class Environment {
 public:
  // The state machines, as the environment sees them. Called on CM's core.
  class Client {
   public:
    virtual ~Client() = default;
    // One received datagram of any length, to the address `to`; `mad` is valid during the call.
    virtual void OnMad(const Gid& from, const Gid& to, std::span<const uint8_t> mad) = 0;
    // After the datagrams of this poll. True when it did something.
    virtual bool OnPoll() = 0;
    // Whether the next poll has work even if nothing calls Wake().
    virtual bool HasWork() const = 0;
    // As StatsProvider::Collect().
    virtual bool OnStatsQuery(const StatsQuery& query, Stats* stats) = 0;
    // A queue pair has failed by itself; `status` is that of its work request, IBV_WC_SUCCESS when
    // it was not one of its own. `flight`: what its flight recorder had then. One of another core
    // may be gone meanwhile.
    virtual void OnQpFailed(Qpn qpn, ibv_wc_status status,
                            std::vector<transport::FlightEntry> flight) = 0;
    // The interface under the device is no more.
    virtual void OnDeviceGone() = 0;
    // From other managers of the device.
    virtual void OnHandover(const Handover& handover) = 0;
    virtual void OnPeerQpTaken(const PeerQpTaken& taken) = 0;
  };

  virtual ~Environment() = default;
  virtual void SetClient(Client* client) = 0;
  // Has Client::OnPoll() called at the next poll; for work that arises outside a poll.
  virtual void Wake() = 0;

  virtual Shard shard() const = 0;
  // Runs `work` on the core of another manager of the device, Shard::index `to`, unless that one is
  // gone. Never from inside this call. False when kMaxPosts of this one are under way.
  static constexpr uint32_t kMaxPosts = 256;
  virtual bool Post(uint32_t to, absl::AnyInvocable<void(Client& manager)> work) = 0;

  // The place of `address` in the GID table; nothing when it is not this device's.
  virtual std::optional<uint8_t> GidIndex(const Gid& address) const = 0;
  // The address to send to `to` from; nothing when there is none of its kind.
  virtual std::optional<Gid> SourceFor(const Gid& to) const = 0;
  virtual uint64_t ca_guid() const = 0;
  virtual ibv_mtu active_mtu() const = 0;
  virtual uint64_t now_ns() const = 0;
  virtual engine::TimingWheel& wheel() = 0;
  virtual Random& random() = 0;
  // Where the environment counts what it drops.
  virtual Counters& counters() = 0;

  // A datagram to queue pair 1 at `to`, from `from`, an address of this device. False (and counted)
  // when it could not be queued.
  virtual bool SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) = 0;
  // Writes the frame of such a datagram, for another process to send, and returns its bytes; 0 when
  // there is none.
  virtual size_t EmitFrame(const Gid& from, const Gid& to, const MadBuffer& mad,
                           std::span<uint8_t, kMaxMadFrameBytes> frame) = 0;
  // Starts to find the way to `to`. An error when there is none.
  virtual absl::Status StartResolve(const Gid& from, const Gid& to) = 0;
  virtual bool IsResolved(const Gid& from, const Gid& to) = 0;
  // What the flight recorder of a queue pair has now; nothing when it is another core's.
  virtual std::vector<transport::FlightEntry> QpFlight(const engine::Worker* owner,
                                                       verbs::QueuePair* qp) const = 0;
  // Runs `move` at once if `owner` is this core's worker, up to the first error; nothing if it is
  // another one.
  virtual std::optional<absl::Status> MoveOwnQp(engine::Worker* owner, verbs::QueuePair* qp,
                                                const QpMove& move) = 0;
  // Runs `move` at the owner's next poll unless the lease has ended, stops at the first error, then
  // `done` on this core. Never from inside this call.
  virtual void MoveQp(engine::Worker* owner, verbs::QueuePair* qp, const QpMove& move,
                      std::shared_ptr<QpLease> lease,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;

  // Joins or leaves a group on the network of `local`, an address of this device. Errors as
  // net::Interface::JoinMulticast.
  virtual absl::Status JoinGroup(const Gid& local, const Gid& group) = 0;
  virtual void LeaveGroup(const Gid& local, const Gid& group) = 0;
  // Has the group's datagrams delivered to `qp`, or no longer; as MoveQp.
  virtual void AttachGroup(engine::Worker* owner, verbs::QueuePair* qp, const Gid& group,
                           bool attach, std::shared_ptr<QpLease> lease,
                           absl::AnyInvocable<void(absl::Status)> done) = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ENVIRONMENT_H_
