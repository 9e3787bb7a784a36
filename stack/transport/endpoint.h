// A queue pair's packet processing, for all types: the engine's view of the transport.
#ifndef POLLUX_STACK_TRANSPORT_ENDPOINT_H_
#define POLLUX_STACK_TRANSPORT_ENDPOINT_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "stack/base/random.h"
#include "stack/transport/congestion/dcqcn_parameters.h"
#include "stack/transport/congestion/notification_point.h"
#include "stack/transport/congestion/reaction_point.h"
#include "stack/transport/diagnostics/counters.h"
#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/egress.h"
#include "stack/transport/rc/rc_requester.h"
#include "stack/transport/rc/rc_responder.h"
#include "stack/transport/uc.h"
#include "stack/transport/ud.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/expected_headers.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// A queue pair and its transport. Owned by one worker, which passes `now_ns`, the egress and the
// counters with every call (PollContext, poll_context.h).
class Endpoint {
 public:
  // `dcqcn` must outlive this object. If it is given, the network may mark data packets (ECN), and
  // marked packets slow their sender down. Queue pair 1 does not use it.
  Endpoint(Qpn qpn, verbs::QueuePairInitAttr init, verbs::ActiveList* active,
           verbs::EventList* events = nullptr, const DcqcnParameters* dcqcn = nullptr);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Returns the endpoint of a queue pair from the active list.
  static Endpoint* Of(verbs::QueuePair* queue_pair);

  // As ibv_modify_qp. If the mask has IBV_QP_AV, qp.path must have been set.
  absl::Status Modify(const ibv_qp_attr& change, int mask, PollContext& context);

  // Handles a packet that is addressed to this queue pair and whose ICRC has not been verified.
  // Checks state, P_Key, addresses and ICRC, then executes the packet, or drops and counts it.
  // `address_version` is that of the addresses of the receiving port; 0: the packet's headers are
  // not learned.
  void OnPacket(const wire::RocePacket& packet, PollContext& context, uint32_t address_version = 0);
  // Takes a frame of at least ExpectedHeaders::kMinFrameBytes, in one segment, whose destination is
  // this queue pair. If its headers are those of the last packet that OnPacket() accepted under the
  // same address version, handles it as OnPacket() does and returns true. Otherwise returns false
  // without any effect.
  bool TryExpectedFrame(const uint8_t* frame, size_t length, PollContext& context,
                        uint32_t address_version);

  // Sends the pending acknowledgement or NAK at once, without waiting for this queue pair's turn to
  // send. Returns false if there was no room or no buffer for it: the caller then pushes the queue
  // pair to ActiveList::owed_acks() again.
  bool Acknowledge(PollContext& context);

  // Sends at most `budget` packets: READ responses, then an acknowledgement, then requests;
  // requests first after a turn that had no room for all responses and for any request. Returns
  // true if more could be sent at once: the caller then appends the queue pair to the active list
  // again.
  bool Transmit(PollContext& context, int budget);

  // Call it before the queue pair is destroyed or its state changes to RESET or ERR: see
  // RcResponder. Needs room for RcResponder::kLastAcks packets.
  void AcknowledgeAtLast(PollContext& context);

  // When to call OnDeadline(); kNever: not at all. Every other call may change it: the engine reads
  // it after each and keeps a timer that may fire too early, but never too late.
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  uint64_t deadline_ns() const {
    if (qp.state() == IBV_QPS_RTS && qp.type() == IBV_QPT_RC && congestion_ == nullptr) [[likely]]
      return std::min(rc_requester_.deadline_ns(), rc_responder_.deadline_ns());
    return SeldomDeadlineNs();
  }
  void OnDeadline(PollContext& context);

  // Prefetches what a packet needs of this object: with many active queue pairs it is not in the
  // cache, and its lines would be loaded one after the other. `sends`: for a packet of the
  // requester.
  void Prefetch(bool sends) const;

  const QpDiagnostics& diagnostics() const { return diagnostics_; }
  // Idle unless the queue pair is of type RC.
  const RcRequester& requester() const { return rc_requester_; }
  // Returns true once after the queue pair has entered IBV_QPS_ERR because of an error in the
  // transport. The engine checks it after each call.
  bool TakeFailure() { return failed_ && std::exchange(failed_, false); }
  // As RcRequester::TakeProgress(); false for other types, whose packets are not acknowledged.
  bool TakeProgress() { return rc_requester_.TakeProgress(); }

  verbs::QueuePair qp;

 private:
  struct Congestion {
    Congestion(const DcqcnParameters* dcqcn, QpDiagnostics* diagnostics)
        : parameters(dcqcn), notification(dcqcn, diagnostics), reaction(dcqcn) {}
    const DcqcnParameters* parameters;
    NotificationPoint notification;
    ReactionPoint reaction;
    uint64_t wait_until_ns = kNever;  // no data is sent earlier; kNever: none waits
  };

  void OnCnp(PollContext& context);
  void OnMarked(const wire::RocePacket& packet, PollContext& context);
  void EnterRtr();
  void EnterRts(ibv_qp_state before);
  void CheckDrained();
  // Returns Drop::kCount if there is no reason. `expected`: the checks that depend only on
  // expected_ have been made.
  Drop ReasonToDrop(const wire::RocePacket& packet, bool expected) const;
  void Execute(const wire::RocePacket& packet, PollContext& context);
  bool TrySinglePacketMessage(wire::Opcode opcode, const uint8_t* frame, size_t length,
                              PollContext& context);
  bool TryExpectedGeneral(const uint8_t* frame, size_t length, PollContext& context);
  bool TransmitAny(PollContext& context, int budget);
  bool Send(PollContext& context, int budget);
  bool SendPaced(PollContext& context, int budget);
  bool SendRequestsFirst(PollContext& context, int budget);
  void NoteState();
  void RecordState(ibv_qp_state state);
  uint64_t SeldomDeadlineNs() const;

  std::unique_ptr<Congestion> congestion_;  // null: disabled
  ibv_qp_state noted_state_ = IBV_QPS_RESET;
  uint32_t expected_address_version_ = 0;  // with which expected_ was learned
  const wire::Transport transport_;        // of the packets that it accepts
  bool failed_ = false;
  bool requests_first_ = false;                 // in the next turn: in the last one they had none
  alignas(64) wire::ExpectedHeaders expected_;  // of the last accepted packet
  QpDiagnostics diagnostics_;
  alignas(64) RcRequester rc_requester_;
  alignas(64) RcResponder rc_responder_;
  Uc uc_;
  Ud ud_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_ENDPOINT_H_
