// RDMA connection management for the queue pairs of one device: rdma_cm's identifiers, calls and
// events, implemented over the device's own GSI queue pair. Source: IB specification volume 1,
// chapter 12 and annex A11.
#ifndef POLLUX_CM_MANAGER_H_
#define POLLUX_CM_MANAGER_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cm/connection/config.h"
#include "cm/connection/dreq_keeper.h"
#include "cm/connection/id.h"
#include "cm/gsi/counters.h"
#include "cm/wire/reasons.h"
#include "stack/base/socket_address.h"
#include "stack/base/types.h"

namespace pollux::engine {
class Worker;
}
namespace pollux::verbs {
class QueuePair;
}

namespace pollux::cm {

// Runs as a poller of one worker, with its own queue pair 1. All calls must be made, and all
// handlers run, on that worker's core. Queue pairs may belong to any worker of the device: CM
// changes the state of those of other workers through Actor::Call(). A connection belongs to the
// manager that requested it or whose listener accepted it.
//
// A handler may call any function of the manager, including DestroyId() for its own identifier, but
// must not destroy the manager. No handler runs during a call to the manager.
//
// When memory runs out, the manager refuses peers' requests (REJ), and established connections use
// MemoryReserve, which Create() installs.
class Manager {
 public:
  // Creates queue pair 1 on `worker`, which must outlive the manager. Errors as
  // Worker::CreateGsiQp().
  static absl::StatusOr<std::unique_ptr<Manager>> Create(engine::Worker* worker,
                                                         const ManagerConfig& config = {});
  // Creates one manager per worker of a device, in the order of the workers. The device must use
  // GsiOwner() (shard.h). Create them before the first poll and destroy them after the last one.
  // InvalidArgument for no worker and for more than Shard::kMaxCount.
  static absl::StatusOr<std::vector<std::unique_ptr<Manager>>> CreateAll(
      absl::Span<engine::Worker* const> workers, const ManagerConfig& config = {});
  // Destroys all identifiers without sending anything.
  virtual ~Manager() = default;

  // Creates an identifier, which the manager owns until DestroyId(). RDMA_PS_TCP and RDMA_PS_IB
  // stand for RC, RDMA_PS_UDP for UD; each has its own port numbers. Errors: Unimplemented for
  // another port space, ResourceExhausted at max_ids. An identifier that comes with CONNECT_REQUEST
  // shares its listener's handler until SetHandler() is called.
  virtual absl::StatusOr<Id*> CreateId(rdma_port_space port_space, EventHandler handler) = 0;
  virtual void SetHandler(Id* id, EventHandler handler) = 0;
  // Destroys an identifier and ends its connection or request, by a REJ or DREQ as its state
  // requires. No event and no `done` of BindQp() follows. CM does not destroy the queue pair and
  // does not use it any more. Destroy the identifier before its queue pair.
  virtual void DestroyId(Id* id) = 0;

  // Binds an identifier that has no address yet to a local address and port. An address of all
  // zeros stands for any address, port 0 for an ephemeral port. Without this call an identifier
  // gets an ephemeral port and a fitting address from ResolveAddr(). Errors: FailedPrecondition if
  // it is bound or in use already; NotFound (EADDRNOTAVAIL) if the device lacks the address;
  // AlreadyExists (EADDRINUSE) if another identifier of this manager and port space has the port,
  // at that address or at any address; ResourceExhausted if all ephemeral ports are in use. Other
  // managers of the device may use the same port.
  virtual absl::Status BindAddr(Id* id, const SocketAddress& local) = 0;

  // As rdma_set_option with RDMA_OPTION_ID_REUSEADDR: lets identifiers that all set this option
  // share an address and port, as long as none of them listens. Listen() returns AlreadyExists
  // while the address is shared; a listener does not share its address. Ephemeral ports are never
  // shared. FailedPrecondition for a listener, and for removing the option from a bound identifier.
  virtual absl::Status SetReuseAddress(Id* id, bool reuse) = 0;

  // For an identifier bound to any address: restricts it to IPv6. Another identifier may then be
  // bound to the same port at any IPv4 address, or at any address. AlreadyExists (EADDRINUSE) if it
  // is bound and the change conflicts with another identifier. FailedPrecondition once it listens
  // or connects.
  virtual absl::Status SetIpv6Only(Id* id, bool only) = 0;

  // Resolve the destination. ResolveAddr() resolves the next hop (ARP or neighbour discovery) and
  // ends with RDMA_CM_EVENT_ADDR_RESOLVED, or with ADDR_ERROR and -ETIMEDOUT if there is no reply
  // within `timeout_ms` milliseconds. ResolveRoute() has nothing to look up on RoCE;
  // RDMA_CM_EVENT_ROUTE_RESOLVED follows in the next turn. Errors: FailedPrecondition in the wrong
  // state, NotFound if the device has no address from which the destination can be reached.
  virtual absl::Status ResolveAddr(Id* id, const SocketAddress& destination,
                                   uint32_t timeout_ms) = 0;
  virtual absl::Status ResolveRoute(Id* id, uint32_t timeout_ms) = 0;
  // Listens at the port that BindAddr() gave (`port` is then that port or 0), or at `port` of any
  // address; errors as BindAddr(), InvalidArgument for a different `port`, AlreadyExists if the
  // address is shared. A listener bound to the requested address takes precedence over one at any
  // address.
  //
  // `backlog` limits the requests that wait for Accept(), Reject() or DestroyId(); 0 stands for
  // max_pending_requests. Requests whose peer has given up count until DestroyId(). Further
  // requests are dropped and counted, and their peers send them again.
  virtual absl::Status Listen(Id* id, uint16_t port, uint32_t backlog, Placement placement) = 0;
  // Limits the half-open connections (REP sent, no RTU yet) of a listener to `max`. At the limit, a
  // new one replaces the oldest of the address that has the most half-open connections. For servers
  // whose connections use memory before they are established. Without this call
  // ManagerConfig::max_half_open alone applies, to all listeners together.
  virtual void SetMaxHalfOpen(Id* listener, uint32_t max) = 0;
  // For a caller that queues CONNECT_REQUEST events for a user of its own: the user has received
  // this request and may accept it later. It no longer counts against the backlog.
  virtual void LeaveBacklog(Id* request) = 0;
  absl::Status Listen(Id* id, uint16_t port, uint32_t backlog = 0) {
    return Listen(id, port, backlog, Placement::kByConnection);
  }

  // As rdma_set_option with RDMA_OPTION_ID_TOS: sets the traffic class (DSCP and ECN bits) of the
  // connection's path. FailedPrecondition once Connect() was called. The passive side uses the
  // active side's value.
  virtual absl::Status SetTypeOfService(Id* id, uint8_t type_of_service) = 0;

  // Attaches a queue pair in IBV_QPS_RESET, which belongs to worker `owner`. CM changes its state
  // to INIT (with `access`, ibv_access_flags), RTR and RTS. `done` runs on the manager's core when
  // it is in INIT. Receives can be posted from then on, and must be posted before Connect() or
  // Accept(). A UD queue pair of RDMA_PS_UDP goes to RTS at once, with the Q_Key RDMA_UDP_QKEY. The
  // caller keeps ownership.
  virtual void BindQp(Id* id, engine::Worker* owner, verbs::QueuePair* qp, int access,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;

  // As rdma_destroy_qp: detaches the queue pair from an identifier that stays. CM does not use the
  // queue pair any more; it may be destroyed. A connection that is not established by then ends in
  // CONNECT_ERROR if the peer has replied or Accept() was called.
  virtual void ReleaseQp(Id* id) = 0;

  using Path = cm::Path;
  virtual Path QueryPath(const Id& id) const = 0;

  // For queue pairs whose state the user changes instead of CM (ConnectionParam::qp_num in
  // Connect() or Accept()). Fills `attr` for the state in attr->qp_state (INIT, RTR or RTS), and
  // `mask` with the attributes that ModifyQp() takes then. The user must add qp_access_flags.
  // INIT is available at any time, RTR and RTS from CONNECT_REQUEST or CONNECT_RESPONSE on,
  // FailedPrecondition before. The queue pair must be in RTS when Accept() is called.
  // InvalidArgument for other states. Source: rdma_init_qp_attr(3).
  virtual absl::Status QueryQpAttr(const Id& id, ibv_qp_attr* attr, int* mask) const = 0;

  // Sends a REQ. Ends in ESTABLISHED (an RTU was sent), REJECTED, UNREACHABLE (no reply) or
  // CONNECT_ERROR. With a queue pair whose state the user changes, it ends in CONNECT_RESPONSE
  // instead of ESTABLISHED; call Establish() or Reject() then. At most once per identifier.
  //
  // For RDMA_PS_UDP: sends a SIDR_REQ, which needs no queue pair. Ends in ESTABLISHED (Event::ud
  // has the destination) or UNREACHABLE.
  //
  // Errors: FailedPrecondition if address, route or queue pair is not ready; InvalidArgument for
  // too much private data.
  virtual absl::Status Connect(Id* id, const ConnectionParam& param) = 0;
  // Sends the RTU after CONNECT_RESPONSE, when the user's queue pair is in RTS. No event follows.
  // FailedPrecondition at any other time.
  virtual absl::Status Establish(Id* id) = 0;
  // Sends a REP after CONNECT_REQUEST. ESTABLISHED follows after the RTU or the first packet
  // arrives. For RDMA_PS_UDP: sends a SIDR_REP with the queue pair number; no event follows.
  // Errors: FailedPrecondition if no request waits (the peer may have given up), InvalidArgument
  // for too much private data.
  virtual absl::Status Accept(Id* id, const ConnectionParam& param) = 0;
  // Sends a REJ with up to 148 bytes of private data, or a SIDR_REP with status 2 (rejected) and up
  // to 136. Allowed after CONNECT_REQUEST, and after CONNECT_RESPONSE with a queue pair whose state
  // the user changes; FailedPrecondition otherwise. The identifier remains and must be destroyed.
  // Use `reason` only for reasons that the user alone can know (no queue pair, insufficient
  // responder resources).
  virtual absl::Status Reject(Id* id, absl::Span<const uint8_t> private_data,
                              RejectReason reason) = 0;
  absl::Status Reject(Id* id, absl::Span<const uint8_t> private_data) {
    return Reject(id, private_data, RejectReason::kConsumerDefined);
  }
  // Sends an MRA: the peer waits that long before it repeats its REQ or REP. `service_timeout` is a
  // code, 4.096 us * 2^n; peers may reduce it (Pollux uses at most 24, 69 s). Call it if Accept()
  // or Reject() will take long; otherwise CM answers a repeated REQ by an MRA of code 24.
  // FailedPrecondition if no message of the peer waits for an answer.
  virtual absl::Status SendMra(Id* id, uint8_t service_timeout) = 0;
  // Sends a DREQ and changes the queue pair's state to IBV_QPS_ERR. DISCONNECTED follows when the
  // peer replies or the retries are used up, and TIMEWAIT_EXIT when the queue pair may be used
  // again. CM answers a DREQ from the peer itself, with the same events. FailedPrecondition before
  // the REP.
  virtual absl::Status Disconnect(Id* id) = 0;
  // For a process that is about to end and cannot wait for time-outs. The first returns the number
  // of unanswered DREQs, including those of destroyed identifiers; the second repeats each of them
  // at once.
  virtual size_t unanswered_disconnects() const = 0;
  virtual void RepeatDisconnects() = 0;
  // Some DREQs are queued until others are answered: sends as many of them as fit in one turn of
  // the loop. Returns false when none is queued any more.
  virtual bool SendWaitingDisconnects() = 0;
  // For the same process: repeats every DREP of a connection in time-wait. Otherwise a peer whose
  // DREP was lost would repeat its DREQ until its retries are used up.
  virtual void RepeatAnswers() = 0;
  // As rdma_join_multicast, for RDMA_PS_UDP: joins `group` (IPv4 as ::ffff:a.b.c.d, or IPv6) on the
  // network of the identifier's local address, by IGMP or MLD, and delivers its datagrams to the
  // identifier's queue pair, if it has one. Other queue pairs are attached by
  // Worker::AttachMulticast(). The event MULTICAST_JOIN (destination in Event::ud) or
  // MULTICAST_ERROR (with -errno) follows, even if the queue pair is released meanwhile. Errors:
  // FailedPrecondition without a local address or before `done` of BindQp(); InvalidArgument for an
  // address that is not multicast or of the other IP version; AlreadyExists for a group that was
  // joined already; ResourceExhausted at kMaxGroupsOfId or at the network's limit.
  static constexpr size_t kMaxGroupsOfId = cm::kMaxGroupsOfId;
  virtual absl::Status JoinMulticast(Id* id, const Gid& group) = 0;
  // Leaves a group; no event follows. NotFound if it was not joined. DestroyId() leaves all groups.
  virtual absl::Status LeaveMulticast(Id* id, const Gid& group) = 0;
  // As rdma_notify: passes on an event from the queue pair's on_event. IBV_EVENT_COMM_EST
  // establishes a connection whose RTU was lost, sooner than the next REP would.
  virtual void Notify(Id* id, ibv_event_type event) = 0;

  virtual const Counters& counters() const = 0;

  // `keeper` stores the DREQ of each connection outside this process, from ESTABLISHED until both
  // sides know of its end. It must outlive the manager. Null, the default, stores none. Call it
  // before the first connection.
  virtual void SetDreqKeeper(DreqKeeper* keeper) = 0;

  // Called for every MAD that queue pair 1 sends, repeats or receives, well-formed or not; null for
  // none.
  using Trace = cm::Trace;
  virtual void SetTrace(Trace trace) = 0;

  // Called once for each connection that fails, while its identifier and queue pair still exist. A
  // connection fails when: the peer does not reply; a REJ arrives, unless its reason is that there
  // is no listener or that the user refuses; the queue pair enters IBV_QPS_ERR by itself (for a
  // queue pair of another worker, when that worker's message arrives); or its identifier is
  // destroyed before the REQ is answered. `why` is a short description. The handler may read
  // everything and must change nothing.
  using FailureHandler = cm::FailureHandler;
  virtual void SetFailureHandler(FailureHandler handler) = 0;
  // Returns one line for each of the last messages and events of the identifier and for each of the
  // last packets, timers and states of its queue pair. For a queue pair of another worker they end
  // at its failure.
  virtual std::string FlightLog(const Id& id) const = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_MANAGER_H_
