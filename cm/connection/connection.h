// The manager's object for an identifier: one end of a connection, or a listener.
#ifndef POLLUX_CM_CONNECTION_CONNECTION_H_
#define POLLUX_CM_CONNECTION_CONNECTION_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cm/connection/dreq_keeper.h"
#include "cm/connection/environment.h"
#include "cm/connection/id.h"
#include "cm/wire/mad.h"
#include "stack/engine/timer/timing_wheel.h"
#include "stack/transport/diagnostics/flight_recorder.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::cm {

struct CmConnection;

// Called when the timer of a connection fires.
class TimerHandler {
 public:
  virtual void OnTimer(CmConnection& connection) = 0;

 protected:
  ~TimerHandler() = default;
};

// The names are those of the IB specification, section 12.9, if it has one. There are no MRA
// states: an MRA only restarts the timer.
enum class State : uint8_t {
  kIdle,
  kResolving,  // the address
  kAddressResolved,
  kRouteResolved,
  kListen,
  kReqSent,
  kReqRcvd,     // the user has received CONNECT_REQUEST
  kRepPending,  // accepted; the queue pair is being moved to RTS
  kRepSent,
  kRepRcvd,  // CM or the user is moving the queue pair to RTS
  kEstablished,
  kDreqSent,
  kTimeWait,
  kSidrReqSent,
  kSidrResolved,  // the SIDR_REP has arrived, with any status
  kSidrReqRcvd,   // the user has received CONNECT_REQUEST
  kSidrAnswered,  // kept in order to answer a repeated SIDR_REQ
  kClosed,        // ended; waits only to be destroyed
};
// For example "ESTABLISHED".
const char* StateName(State state);

// Limits `count` to what a queue pair can have outstanding.
inline uint8_t CapReadsAndAtomics(uint8_t count) {
  return static_cast<uint8_t>(std::min<uint32_t>(count, verbs::kMaxRdAtomic));
}

// Queue pairs 0 and 1 are those of the SMI and GSI, and 0xFFFFFF stands for multicast.
inline bool CanBeConnected(uint32_t qpn) {
  return qpn > kGsiQpn.value && qpn < kMulticastQpn.value;
}

enum class QpBinding : uint8_t {
  kNone,
  kMoving,
  kReady,  // in INIT or beyond
  kUsers,  // the user's own queue pair: CM does not move it
};

// Owned by the manager, on its core.
struct CmConnection final : Id {
  explicit CmConnection(TimerHandler* the_handler)
      : timer_handler(the_handler), timer(&CmConnection::TimerFired, this) {}

  TimerHandler* const timer_handler;
  State state = State::kIdle;
  bool destroyed = false;  // by the user; it remains until the exchange with the peer has ended
  bool failed = false;     // the user has received CONNECT_ERROR and gets no DISCONNECTED
  bool indexed = false;    // in the indexes by the peer's IDs (ConnectionTable)
  bool sidr_indexed = false;
  bool has_port = false;   // in the PortTable
  bool has_claim = false;  // of its port, in kernel::InterfaceClaims
  bool ipv6_only = false;  // only for a connection bound to any address
  bool reuses_address = false;
  Gid bound_address;  // while an address is resolved: what local().address was before
  QpBinding binding = QpBinding::kNone;

  uint32_t local_comm_id = 0;
  uint32_t told_qpn = 0;   // the one in the REQ or REP; another may have been bound since
  uint32_t local_qpn = 0;  // a copy: the queue pair may be destroyed before the last message
  uint32_t remote_comm_id = 0;
  uint64_t remote_ca_guid = 0;
  uint32_t remote_qpn = 0;
  uint64_t transaction_id = 0;  // of the current exchange

  // For a listener: the number of its requests that wait for Accept() or Reject(), and its limit.
  uint32_t pending = 0;
  uint32_t backlog = 0;
  uint32_t max_half_open = UINT32_MAX;  // connections of this listener
  Placement placement = Placement::kByConnection;
  uint32_t listener_comm_id = 0;  // for a connection that was created by a listener: its ID
  bool is_pending = false;        // counted in the listener's `pending`
  bool is_half_open = false;      // counted in HalfOpen

  // Shared by a listener and the identifiers that it creates.
  std::shared_ptr<EventHandler> handler;
  std::shared_ptr<QpLease> lease = std::make_shared<QpLease>();

  uint64_t created_ns = 0;
  transport::FlightRecorder recorder;  // CM messages and events
  // The queue pair's flight recorder at the time of its failure; the queue pair may be another
  // core's.
  std::vector<transport::FlightEntry> failed_flight;
  bool failure_told = false;

  // The message that waits for a reply, and the state of its repetition.
  engine::Timer timer;
  MadBuffer outstanding;
  Attribute outstanding_attribute = Attribute::kReq;
  bool waits = false;  // queued in RequestWindow
  uint8_t retries_left = 0;
  uint8_t max_retries = 0;
  uint64_t resend_after_ns = 0;
  // An MRA has arrived since the message was last sent (for a REP: since it was first sent). A
  // second MRA does not extend the time.
  bool mra_heard = false;

  uint32_t kept_dreq = DreqKeeper::kNowhere;

  // The negotiated parameters, and the attributes of the queue pair.
  uint32_t send_psn = 0;
  uint32_t receive_psn = 0;
  ibv_mtu path_mtu = IBV_MTU_1024;
  bool mtu_lowered = false;  // the peer has rejected a larger one
  uint8_t hop_limit = 64;
  uint8_t traffic_class = 0;
  // The most READs and atomics that the peer may have outstanding, and the most that this side may.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t ack_timeout = 0;
  uint8_t min_rnr_timer = ConnectionParam{}.min_rnr_timer;
  bool flow_control = false;
  bool peer_has_srq = false;  // from the REP
  bool alternate_path_asked = false;
  // The peer's values, swapped to this side's view.
  uint8_t offered_responder_resources = 0;
  uint8_t offered_initiator_depth = 0;

  struct Group {
    Gid gid;
    bool joined = false;  // MULTICAST_JOIN was delivered
  };
  std::vector<Group> groups;  // RDMA_PS_UDP only

  // The REP's private data, kept from its receipt until ESTABLISHED.
  std::array<uint8_t, Rep::kPrivateBytes> peer_private_data{};

  // Gives the manager write access to the members of Id.
  SocketAddress& mutable_local() { return local_; }
  SocketAddress& mutable_peer() { return peer_; }
  void set_port_space(rdma_port_space port_space) { port_space_ = port_space; }
  void SetQp(engine::Worker* owner, verbs::QueuePair* qp) {
    qp_owner_ = owner;
    qp_ = qp;
  }
  engine::Worker* qp_owner() const { return qp_owner_; }

 private:
  static void TimerFired(void* connection, uint64_t /*now_ns*/) {
    auto& expired = *static_cast<CmConnection*>(connection);
    expired.timer_handler->OnTimer(expired);
  }
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_CONNECTION_H_
