// The services that the connection state machines need: datagrams, addresses, time, randomness, and
// state changes of queue pairs. WorkerEnvironment implements them with a worker; the tests have a
// fake.
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
namespace pollux::kernel {
class InterfaceClaims;
}
namespace pollux::verbs {
class QueuePair;
}

namespace pollux::cm {

// `valid` as long as CM may change the queue pair's state for its identifier. Written on CM's core,
// read on the queue pair's core.
struct QpLease {
  std::atomic<bool> valid{true};
};

// The ibv_modify_qp calls to make, in this order.
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
    // Handles a received datagram of any length, sent to the address `to`. `mad` is valid during
    // the call.
    virtual void OnMad(const Gid& from, const Gid& to, std::span<const uint8_t> mad) = 0;
    // Called after the datagrams of this poll. Returns true if it did anything.
    virtual bool OnPoll() = 0;
    // Whether the next poll has work even if nothing calls Wake().
    virtual bool HasWork() const = 0;
    // As StatsProvider::Collect().
    virtual bool OnStatsQuery(const StatsQuery& query, Stats* stats) = 0;
    // A queue pair has entered the error state by itself. `status` is that of its failed work
    // request, or IBV_WC_SUCCESS if a request of the peer caused the failure. `flight`: the
    // contents of its flight recorder at that time. A queue pair of another core may have been
    // destroyed meanwhile.
    virtual void OnQpFailed(Qpn qpn, ibv_wc_status status,
                            std::vector<transport::FlightEntry> flight) = 0;
    // The interface on which the device was opened is gone.
    virtual void OnDeviceGone() = 0;
    // From other managers of the device.
    virtual void OnHandover(const Handover& handover) = 0;
    virtual void OnPeerQpTaken(const PeerQpTaken& taken) = 0;
  };

  virtual ~Environment() = default;
  virtual void SetClient(Client* client) = 0;
  // Requests a call of Client::OnPoll() in the next poll, for work that arises outside a poll.
  virtual void Wake() = 0;

  virtual Shard shard() const = 0;
  // What this process has of the interface, if other processes share it; otherwise null.
  virtual kernel::InterfaceClaims* claims() const = 0;
  // Runs `work` on the core of another manager of the device, the one with Shard::index `to`,
  // unless that manager is destroyed. Does not run it during this call. Returns false if kMaxPosts
  // calls of this manager are in progress.
  static constexpr uint32_t kMaxPosts = 256;
  virtual bool Post(uint32_t to, absl::AnyInvocable<void(Client& manager)> work) = 0;

  // Returns the index of `address` in the GID table, or nothing if the device does not have it.
  virtual std::optional<uint8_t> GidIndex(const Gid& address) const = 0;
  // Returns the source address for packets to `to`, or nothing if the device has no address of that
  // IP version.
  virtual std::optional<Gid> SourceFor(const Gid& to) const = 0;
  virtual uint64_t ca_guid() const = 0;
  virtual ibv_mtu active_mtu() const = 0;
  virtual uint64_t now_ns() const = 0;
  virtual engine::TimingWheel& wheel() = 0;
  virtual Random& random() = 0;
  // The environment counts dropped datagrams here.
  virtual Counters& counters() = 0;

  // Sends a datagram to queue pair 1 at `to`, from `from`, an address of this device. Returns false
  // and counts this if it could not be queued.
  virtual bool SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) = 0;
  // Writes the frame of such a datagram, for another process to send. Returns its size in bytes, or
  // 0 if `from` is not an address of this device or the next hop is not resolved.
  virtual size_t EmitFrame(const Gid& from, const Gid& to, const MadBuffer& mad,
                           std::span<uint8_t, kMaxMadFrameBytes> frame) = 0;
  // Starts to resolve the next hop to `to`. Returns an error if there is no route.
  virtual absl::Status StartResolve(const Gid& from, const Gid& to) = 0;
  virtual bool IsResolved(const Gid& from, const Gid& to) = 0;
  // Returns the contents of a queue pair's flight recorder; empty if another core owns the queue
  // pair.
  virtual std::vector<transport::FlightEntry> QpFlight(const engine::Worker* owner,
                                                       verbs::QueuePair* qp) const = 0;
  // If `owner` is this core's worker, makes the calls of `move` at once, up to the first error, and
  // returns the result. Otherwise returns nothing.
  virtual std::optional<absl::Status> MoveOwnQp(engine::Worker* owner, verbs::QueuePair* qp,
                                                const QpMove& move) = 0;
  // Makes the calls of `move`, up to the first error, in the owner's next poll, unless the lease
  // has ended by then. Then calls `done` on this core; never during this call.
  virtual void MoveQp(engine::Worker* owner, verbs::QueuePair* qp, const QpMove& move,
                      std::shared_ptr<QpLease> lease,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;

  // Joins or leaves a group on the network of `local`, an address of this device. Errors as
  // ip::Interface::JoinMulticast().
  virtual absl::Status JoinGroup(const Gid& local, const Gid& group) = 0;
  virtual void LeaveGroup(const Gid& local, const Gid& group) = 0;
  // Starts or stops the delivery of the group's datagrams to `qp`. Runs and completes as MoveQp().
  virtual void AttachGroup(engine::Worker* owner, verbs::QueuePair* qp, const Gid& group,
                           bool attach, std::shared_ptr<QpLease> lease,
                           absl::AnyInvocable<void(absl::Status)> done) = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ENVIRONMENT_H_
