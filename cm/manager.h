// RDMA connection management for the queue pairs of one device: rdma_cm's identifiers, calls and
// events, spoken over Pollux's own GSI queue pair.
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

// Lives on one worker of the device as a poller, with a QP 1 of its own; all calls are made, all
// handlers run on that core. Queue pairs may live on any worker: CM moves those of others through
// Actor::Call. Connections belong to the manager that asks for them, or has the listener that they
// were asked of. A handler may call anything here, DestroyId of its own identifier included, but
// not destroy the manager. No handler runs inside a call made here.
class Manager {
 public:
  // Creates QP 1 on `worker`. `worker` outlives the manager.
  static absl::StatusOr<std::unique_ptr<Manager>> Create(engine::Worker* worker,
                                                         const ManagerConfig& config = {});
  // One on each of a device's workers, in the order of their numbers, for a device that asks
  // GsiOwner() (shard.h) which of them a MAD is for. Before the first poll; their destruction is
  // after the last. At most Shard::kMaxCount, else InvalidArgument.
  static absl::StatusOr<std::vector<std::unique_ptr<Manager>>> CreateAll(
      absl::Span<engine::Worker* const> workers, const ManagerConfig& config = {});
  // Identifiers end with it, silently: nothing is sent.
  virtual ~Manager() = default;

  // RDMA_PS_TCP and RDMA_PS_IB (RC), RDMA_PS_UDP (UD); others: Unimplemented. Each has its own
  // ports. ResourceExhausted at max_ids. Identifiers that come with CONNECT_REQUEST share the
  // handler of their listener until SetHandler.
  virtual absl::StatusOr<Id*> CreateId(rdma_port_space port_space, EventHandler handler) = 0;
  virtual void SetHandler(Id* id, EventHandler handler) = 0;
  // Ends whatever it is in the midst of (REJ or DREQ as the state asks); neither an event nor the
  // `done` of BindQp comes after. The queue pair is not destroyed and not touched any more: destroy
  // the identifier before its queue pair, and the queue pair with time_wait_ns().
  virtual void DestroyId(Id* id) = 0;

  // Gives a fresh identifier its local address and port: all zeros for any address, port 0 for an
  // ephemeral one. NotFound (EADDRNOTAVAIL): not an address of this device. AlreadyExists
  // (EADDRINUSE): another identifier of the port space has the port, at that address or at any.
  // Other managers of the device may have it too.
  // ResourceExhausted: no ephemeral port is free. Who does not call it gets any address, and an
  // ephemeral port in ResolveAddr.
  virtual absl::Status BindAddr(Id* id, const SocketAddress& local) = 0;

  // As rdma_set_option with RDMA_OPTION_ID_REUSEADDR: whether others that say the same may be bound
  // to its address and port too, before it or after it, as long as none of them listens. Who
  // listens has them to itself (AlreadyExists while they are shared), and from then on does not
  // share them. FailedPrecondition for a listener, and to take it back once there is an address.
  // Ephemeral ports are not shared.
  virtual absl::Status SetReuseAddress(Id* id, bool reuse) = 0;

  // Of an identifier at any address: whether it has its port for IPv6 only. Then another one may
  // have it at any address, or any of IPv4. AlreadyExists (EADDRINUSE): it is bound, and another
  // one has what it would have now. FailedPrecondition once it listens or connects.
  virtual absl::Status SetIpv6Only(Id* id, bool only) = 0;

  // RDMA_CM_EVENT_ADDR_RESOLVED and then RDMA_CM_EVENT_ROUTE_RESOLVED come in one step each:
  // ResolveAddr finds the next hop (ARP), ResolveRoute has nothing to ask on RoCE. No answer within
  // `timeout_ms`: ADDR_ERROR with -ETIMEDOUT.
  virtual absl::Status ResolveAddr(Id* id, const SocketAddress& destination,
                                   uint32_t timeout_ms) = 0;
  virtual absl::Status ResolveRoute(Id* id, uint32_t timeout_ms) = 0;
  // At the port that BindAddr gave (`port` is then that or 0), or else at `port` of any address
  // (errors as BindAddr's). A listener bound to the address that a request names goes before one
  // at any address. At most `backlog` requests wait for Accept, Reject or DestroyId, those that
  // their peers have given up for DestroyId alone; more are dropped and counted, to be sent again;
  // 0: max_pending_requests.
  virtual absl::Status Listen(Id* id, uint16_t port, uint32_t backlog, Placement placement) = 0;
  // For who keeps CONNECT_REQUESTs for a user of its own: that one has been given this, and may
  // take its time to accept. From now on it leaves its room in the backlog to others.
  virtual void LeaveBacklog(Id* request) = 0;
  absl::Status Listen(Id* id, uint16_t port, uint32_t backlog = 0) {
    return Listen(id, port, backlog, Placement::kByConnection);
  }

  // As rdma_set_option with RDMA_OPTION_ID_TOS: the traffic class of the connection's path, DSCP
  // and all. FailedPrecondition once it is asked for; the passive side takes the other's.
  virtual absl::Status SetTypeOfService(Id* id, uint8_t type_of_service) = 0;

  // Gives the identifier its queue pair, which `owner` owns and which is in IBV_QPS_RESET; CM moves
  // it to INIT (with `access`, ibv_access_flags), RTR, RTS. `done` runs when it is in INIT:
  // receives can be posted from then on, and must be before Connect or Accept. A UD queue pair of
  // RDMA_PS_UDP is in RTS then, with the Q_Key RDMA_UDP_QKEY.
  virtual void BindQp(Id* id, engine::Worker* owner, verbs::QueuePair* qp, int access,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;

  // Takes its queue pair from an identifier that goes on, as rdma_destroy_qp does: it is not
  // touched any more, and may be destroyed with time_wait_ns(). A connection that is not
  // established yet will not be: one whose peer has answered, or was accepted, ends in
  // CONNECT_ERROR.
  virtual void ReleaseQp(Id* id) = 0;

  using Path = cm::Path;
  virtual Path QueryPath(const Id& id) const = 0;

  // A user may connect a queue pair that CM does not touch, by naming it in Connect or Accept
  // (ConnectionParam::qp_num) and moving it itself by what this says: the attributes for
  // attr->qp_state, one of INIT, RTR and RTS, and which of them ModifyQp takes; qp_access_flags are
  // the user's to add. INIT at any time; RTR and RTS from CONNECT_REQUEST or CONNECT_RESPONSE on,
  // before that FailedPrecondition. Who accepts does so with the queue pair in RTS. InvalidArgument
  // for other states. Source: rdma_init_qp_attr(3).
  virtual absl::Status QueryQpAttr(const Id& id, ibv_qp_attr* attr, int* mask) const = 0;

  // REQ. Ends in ESTABLISHED (RTU sent), REJECTED, UNREACHABLE (time-out) or CONNECT_ERROR; with a
  // queue pair of the user's own in CONNECT_RESPONSE, to be followed by Establish or Reject. Once
  // an identifier; FailedPrecondition when its address, route or queue pair are not ready.
  // For RDMA_PS_UDP, where no queue pair is needed: SIDR_REQ, which ends in ESTABLISHED (Event::ud
  // says whom to send to) or UNREACHABLE.
  virtual absl::Status Connect(Id* id, const ConnectionParam& param) = 0;
  // RTU, after CONNECT_RESPONSE, when the user's own queue pair is in RTS; no event follows.
  // FailedPrecondition at any other time.
  virtual absl::Status Establish(Id* id) = 0;
  // REP, after CONNECT_REQUEST. ESTABLISHED comes with RTU or the first packet.
  // For RDMA_PS_UDP: SIDR_REP with the queue pair's number; no event follows.
  virtual absl::Status Accept(Id* id, const ConnectionParam& param) = 0;
  // After CONNECT_REQUEST, or CONNECT_RESPONSE with a queue pair of the user's own: REJ with up to
  // 148 bytes, or SIDR_REP with status 2 (rejected) and up to 136. The identifier
  // stays to be destroyed. `reason` is for those that only the user can know (no queue pair,
  // insufficient responder resources, ...).
  virtual absl::Status Reject(Id* id, absl::Span<const uint8_t> private_data,
                              RejectReason reason) = 0;
  absl::Status Reject(Id* id, absl::Span<const uint8_t> private_data) {
    return Reject(id, private_data, RejectReason::kConsumerDefined);
  }
  // MRA: the peer waits for this long before it sends its REQ or REP again. `service_timeout` is a
  // code, 4.096 us * 2^n; peers may cut it (Pollux at 24, 69 s). For a user that knows it will be
  // slow to Accept or Reject: without it a repeated REQ is answered by an MRA of code 24.
  // FailedPrecondition when no message waits for this side.
  virtual absl::Status SendMra(Id* id, uint8_t service_timeout) = 0;
  // DREQ; the queue pair goes to IBV_QPS_ERR. DISCONNECTED when the peer answers or time is up,
  // TIMEWAIT_EXIT when the queue pair may be used again. A DREQ of the peer's is answered without
  // being asked, and ends the same way. FailedPrecondition before the REP.
  virtual absl::Status Disconnect(Id* id) = 0;
  // For a process that is about to end and cannot await time-outs: how many DREQs are not answered
  // yet, those of destroyed identifiers too; and each of them sent again at once, besides when it
  // is due.
  virtual size_t unanswered_disconnects() const = 0;
  virtual void RepeatDisconnects() = 0;
  // As many as may leave in one turn of the DREQs that wait for others to be answered; false when
  // none waits any more.
  virtual bool SendWaitingDisconnects() = 0;
  // For the same process: every DREP of a connection in time-wait is sent again. Its peer would
  // repeat a DREQ whose DREP was lost until its retries are used up.
  virtual void RepeatAnswers() = 0;
  // As rdma_join_multicast, for RDMA_PS_UDP: joins `group` (IPv4 as ::ffff:a.b.c.d, or IPv6) on the
  // network of the identifier's local address (IGMP, MLD), and has its datagrams delivered to the
  // identifier's queue pair too, if it has one: others are attached by Worker::AttachMulticast().
  // MULTICAST_JOIN follows, also when the queue pair is released meanwhile, with whom to send to in
  // Event::ud, or MULTICAST_ERROR with -errno. FailedPrecondition when there is no local address,
  // or BindQp is not done; InvalidArgument for what is no group of the address's kind;
  // AlreadyExists for one that it has joined; ResourceExhausted at kMaxGroupsOfId, or at the
  // network's limit.
  static constexpr size_t kMaxGroupsOfId = cm::kMaxGroupsOfId;
  virtual absl::Status JoinMulticast(Id* id, const Gid& group) = 0;
  // Without an event; NotFound for what it has not joined. DestroyId leaves all groups.
  virtual absl::Status LeaveMulticast(Id* id, const Gid& group) = 0;
  // What the queue pair's on_event was told, as rdma_notify: IBV_EVENT_COMM_EST establishes a
  // connection whose RTU was lost, sooner than the next REP would.
  virtual void Notify(Id* id, ibv_event_type event) = 0;

  // How long the number of a queue pair that was connected must not be reused (Worker::DestroyQp).
  virtual uint64_t time_wait_ns() const = 0;
  virtual const Counters& counters() const = 0;

  // Keeps, in what outlives this process, the DREQ of each connection from ESTABLISHED until its
  // end is known to both sides. Outlives the manager. Null, as at the start: nobody does. Before
  // the first connection.
  virtual void SetDreqKeeper(DreqKeeper* keeper) = 0;

  // Told of every MAD to queue pair 1 that is sent (again) or has arrived, well-formed or not; null
  // for none.
  using Trace = cm::Trace;
  virtual void SetTrace(Trace trace) = 0;

  // Told once of each connection that fails, while its identifier and queue pair are still there: a
  // peer that does not answer, a REJ for another reason than that nobody listens or its user does
  // not want, a queue pair that has entered IBV_QPS_ERR by itself (of another worker: as its
  // message arrives), an identifier destroyed while its REQ is not answered. `why` is a few words.
  // The handler may look at everything and change nothing.
  using FailureHandler = cm::FailureHandler;
  virtual void SetFailureHandler(FailureHandler handler) = 0;
  // A line each for the last messages and events of the identifier, and for the last packets,
  // timers and states of its queue pair: up to now when it lives on this worker, up to its failure
  // when on another.
  virtual std::string FlightLog(const Id& id) const = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_MANAGER_H_
