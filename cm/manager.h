// RDMA connection management for the queue pairs of one device: rdma_cm's identifiers, calls and
// events, spoken over Pollux's own GSI queue pair.
#ifndef POLLUX_CM_MANAGER_H_
#define POLLUX_CM_MANAGER_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "stack/base/types.h"
#include "stack/engine/worker.h"

namespace pollux::cm {

class Id;

// An address and port, as rdma_cm takes a sockaddr.
struct Endpoint {
  Gid address;
  uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
std::string ToString(const Endpoint& endpoint);  // "192.0.2.1:20049"

// As rdma_conn_param; depths and resources are the sender's view on the way out, and what the peer
// offers to the receiver (already swapped, as librdmacm does) on the way in.
struct ConnectionParam {
  absl::Span<const uint8_t>
      private_data;  // at most 56 bytes in Connect (CMA header), 196 in Accept
  uint8_t responder_resources = 16;
  uint8_t initiator_depth = 16;
  bool flow_control = false;
  uint8_t retry_count = 7;      // 0..7; larger values are cut to 7
  uint8_t rnr_retry_count = 7;  // 0..7; 7 means for ever
};

// As rdma_cm_event. Spans are valid only during the handler.
struct Event {
  rdma_cm_event_type type;
  int status = 0;           // errno for errors of ours; the REJ reason for RDMA_CM_EVENT_REJECTED
  Id* id = nullptr;         // for CONNECT_REQUEST: the new identifier, the handler's to accept,
                            // reject or destroy
  Id* listen_id = nullptr;  // for CONNECT_REQUEST
  ConnectionParam param;    // for CONNECT_REQUEST, CONNECT_RESPONSE/ESTABLISHED, REJECTED
};
using EventHandler = absl::AnyInvocable<void(const Event&)>;

// What CM messages came and went, by attribute.
struct Counters;

// An rdma_cm_id. Belongs to the manager that made it, and to its core.
class Id {
 public:
  const Endpoint& local() const { return local_; }
  const Endpoint& peer() const { return peer_; }
  verbs::QueuePair* qp() const { return qp_; }
  void* context = nullptr;  // the user's

 protected:
  Id() = default;
  ~Id() = default;
  Endpoint local_;
  Endpoint peer_;
  verbs::QueuePair* qp_ = nullptr;
  engine::Worker* qp_owner_ = nullptr;
};

struct ManagerConfig {
  uint32_t max_ids = 16384;              // connections and listeners together
  uint32_t max_pending_requests = 1024;  // REQs not yet accepted or rejected; more are dropped
};

// Lives on one worker of the device (the one that owns QP 1) as a poller; all calls are made, all
// handlers run on that core. Queue pairs may live on any worker: CM moves them through
// Party::Call. A handler may call anything here, DestroyId of its own identifier included.
class Manager {
 public:
  // Creates QP 1 on `worker`. `worker` outlives the manager.
  static absl::StatusOr<std::unique_ptr<Manager>> Create(engine::Worker* worker,
                                                         const ManagerConfig& config = {});
  virtual ~Manager() = default;

  // Only RDMA_PS_TCP for now; others: Unimplemented.
  virtual absl::StatusOr<Id*> CreateId(rdma_port_space port_space, EventHandler handler) = 0;
  // Ends whatever it is in the midst of (REJ or DREQ as the state asks); no event comes after.
  // The queue pair is not destroyed.
  virtual void DestroyId(Id* id) = 0;

  // RDMA_CM_EVENT_ADDR_RESOLVED and then RDMA_CM_EVENT_ROUTE_RESOLVED come in one step each:
  // ResolveAddr finds the next hop (ARP), ResolveRoute has nothing to ask on RoCE.
  virtual absl::Status ResolveAddr(Id* id, const Endpoint& destination, uint32_t timeout_ms) = 0;
  virtual absl::Status ResolveRoute(Id* id, uint32_t timeout_ms) = 0;
  // AlreadyExists when the port has a listener.
  virtual absl::Status Listen(Id* id, uint16_t port) = 0;

  // Gives the identifier its queue pair, which `owner` owns and which is in IBV_QPS_RESET; CM moves
  // it to INIT (with `access`, ibv_access_flags), RTR, RTS. `done` runs when it is in INIT:
  // receives can be posted from then on, and must be before Connect or Accept.
  virtual void BindQp(Id* id, engine::Worker* owner, verbs::QueuePair* qp, int access,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;

  // REQ. Ends in ESTABLISHED (RTU sent), REJECTED, UNREACHABLE (time-out) or CONNECT_ERROR.
  virtual absl::Status Connect(Id* id, const ConnectionParam& param) = 0;
  // REP, after CONNECT_REQUEST. ESTABLISHED comes with RTU or the first packet.
  virtual absl::Status Accept(Id* id, const ConnectionParam& param) = 0;
  // REJ with reason 28 (consumer defined) and up to 148 bytes. The identifier stays to be
  // destroyed.
  virtual absl::Status Reject(Id* id, absl::Span<const uint8_t> private_data) = 0;
  // DREQ; the queue pair goes to IBV_QPS_ERR. DISCONNECTED when the peer answers or time is up,
  // TIMEWAIT_EXIT when the queue pair may be used again.
  virtual absl::Status Disconnect(Id* id) = 0;

  virtual const Counters& counters() const = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_MANAGER_H_
