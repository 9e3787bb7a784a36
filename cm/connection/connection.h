// One end of a connection, or a listener: what an identifier is inside the manager.
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

// Told of each connection whose timer has fired.
class TimerHandler {
 public:
  virtual void OnTimer(CmConnection& connection) = 0;

 protected:
  ~TimerHandler() = default;
};

// Names as the IB specification's, section 12.9, where it has one. The MRA states are missing: an
// MRA only moves the timer.
enum class State : uint8_t {
  kIdle,
  kResolving,  // the address
  kAddressResolved,
  kRouteResolved,
  kListen,
  kReqSent,
  kReqRcvd,     // the user has been asked
  kRepPending,  // accepted; the queue pair is on its way to RTS
  kRepSent,
  kRepRcvd,  // the queue pair is on its way to RTS, or the user moves it there
  kEstablished,
  kDreqSent,
  kTimeWait,
  kSidrReqSent,
  kSidrResolved,  // answered, for good or ill
  kSidrReqRcvd,   // the user has been asked
  kSidrAnswered,  // kept to answer again
  kClosed,        // nothing more will happen to it
};
// "ESTABLISHED".
const char* StateName(State state);

// No more than a queue pair can have under way.
inline uint8_t CapReadsAndAtomics(uint8_t count) {
  return static_cast<uint8_t>(std::min<uint32_t>(count, verbs::kMaxRdAtomic));
}

// Queue pairs 0 and 1 are the managers', and all ones is multicast.
inline bool CanBeConnected(uint32_t qpn) {
  return qpn > kGsiQpn.value && qpn < kMulticastQpn.value;
}

enum class QpBinding : uint8_t {
  kNone,
  kMoving,
  kReady,  // in INIT or beyond
  kUsers,  // connected, and moved by the user alone
};

// Owned by the manager, on its core.
struct CmConnection final : Id {
  explicit CmConnection(TimerHandler* the_handler)
      : timer_handler(the_handler), timer(&CmConnection::TimerFired, this) {}

  TimerHandler* const timer_handler;
  State state = State::kIdle;
  bool destroyed = false;  // the user's part is over; what is left is between the peers
  bool failed = false;     // the user has been told, and hears of no DISCONNECTED any more
  bool indexed = false;    // found by its peer's numbers (ConnectionTable)
  bool sidr_indexed = false;
  bool has_port = false;   // in the PortTable
  bool ipv6_only = false;  // of one at any address
  bool reuses_address = false;
  QpBinding binding = QpBinding::kNone;

  uint32_t local_comm_id = 0;
  uint32_t told_qpn = 0;   // that the REQ or REP names: this side may have bound another one since
  uint32_t local_qpn = 0;  // kept, since the queue pair may go before the connection's last message
  uint32_t remote_comm_id = 0;
  uint64_t remote_ca_guid = 0;
  uint32_t remote_qpn = 0;
  uint64_t transaction_id = 0;  // of the exchange under way

  // Of a listener: how many of its requests wait for their user, and may.
  uint32_t pending = 0;
  uint32_t backlog = 0;
  uint32_t max_half_open = UINT32_MAX;  // that came of it
  Placement placement = Placement::kByConnection;
  uint32_t listener_comm_id = 0;  // of what came of a listener
  bool is_pending = false;        // counts there
  bool is_half_open = false;      // counts in HalfOpen

  // Shared with identifiers that come of a listener.
  std::shared_ptr<EventHandler> handler;
  std::shared_ptr<QpLease> lease = std::make_shared<QpLease>();

  uint64_t created_ns = 0;
  transport::FlightRecorder recorder;  // CM messages and events
  // Of the queue pair when it failed, on whichever core.
  std::vector<transport::FlightEntry> failed_flight;
  bool failure_told = false;

  // The message that waits for an answer, to be sent again.
  engine::Timer timer;
  MadBuffer outstanding;
  Attribute outstanding_attribute = Attribute::kReq;
  bool waits = false;  // for its turn to be sent (RequestWindow)
  uint8_t retries_left = 0;
  uint8_t max_retries = 0;
  uint64_t resend_after_ns = 0;
  // Since the message, if it is no REP, was last sent: a second one buys no more time.
  bool mra_heard = false;

  uint32_t kept_dreq = DreqKeeper::kNowhere;

  // What the two sides agree on, and what the queue pair is given.
  uint32_t send_psn = 0;
  uint32_t receive_psn = 0;
  ibv_mtu path_mtu = IBV_MTU_1024;
  bool mtu_lowered = false;  // the peer has rejected a larger one
  uint8_t hop_limit = 64;
  uint8_t traffic_class = 0;
  uint8_t responder_resources =
      0;                        // this side's: READs and atomics that the peer may have under way
  uint8_t initiator_depth = 0;  // this side's: those it may have under way
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t ack_timeout = 0;
  uint8_t min_rnr_timer = ConnectionParam{}.min_rnr_timer;
  bool flow_control = false;
  bool peer_has_srq = false;  // as the REP says
  bool alternate_path_asked = false;
  // As the peer offers them, swapped to this side's view.
  uint8_t offered_responder_resources = 0;
  uint8_t offered_initiator_depth = 0;

  struct Group {
    Gid gid;
    bool joined = false;  // the user has been told
  };
  std::vector<Group> groups;  // with RDMA_PS_UDP

  // Of the REP, from its receipt to ESTABLISHED.
  std::array<uint8_t, Rep::kPrivateBytes> peer_private_data{};

  // Id's members, for the manager.
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
