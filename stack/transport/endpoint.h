// What a queue pair does with packets, whatever its type: the engine's view of the transport.
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

// A queue pair and its transport. Owned by one worker, which gives `now_ns`, the egress and the
// counters with every call (PollContext, poll_context.h).
class Endpoint {
 public:
  // With `dcqcn`, which outlives this, its data packets may be marked by the network, and marks
  // slow senders down; not those of queue pair 1.
  Endpoint(Qpn qpn, verbs::QueuePairInitAttr init, verbs::ActiveList* active,
           verbs::EventList* events = nullptr, const DcqcnParameters* dcqcn = nullptr);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Which endpoint a queue pair from the active list belongs to.
  static Endpoint* Of(verbs::QueuePair* queue_pair);

  // As ibv_modify_qp; with IBV_QP_AV in the mask, qp.path has been set.
  absl::Status Modify(const ibv_qp_attr& change, int mask, PollContext& context);

  // One packet whose destination QPN is this queue pair's; the ICRC is not verified yet. Checks
  // state, P_Key, addresses and ICRC, then executes or drops and counts.
  // `address_version` stands for the addresses of the port that has received it; 0: the packet's
  // headers are not learned.
  void OnPacket(const wire::RocePacket& packet, PollContext& context, uint32_t address_version = 0);
  // One frame of at least ExpectedHeaders::kMinFrameBytes, in one piece, that names this queue pair
  // as its destination. If its headers are those of the last packet that OnPacket() accepted under
  // the same address version, it is a packet for this host: handles it as OnPacket() does and
  // returns true. Otherwise returns false, and nothing has happened.
  bool TryExpectedFrame(const uint8_t* frame, size_t length, PollContext& context,
                        uint32_t address_version);

  // Sends the acknowledgement or NAK that it owes, without a turn. False when there was no room or
  // no buffer for it: the caller puts the queue pair into its row again (ActiveList::owed_acks()).
  bool Acknowledge(PollContext& context);

  // Sends at most `budget` packets: READ responses, then requests, and an acknowledgement in
  // between. True when more could be sent at once: the caller puts the queue pair at the end of the
  // active list again.
  bool Transmit(PollContext& context, int budget);

  // Before the queue pair is destroyed, reset or moved to ERR: see RcResponder. Needs room for
  // RcResponder::kLastAcks packets.
  void AcknowledgeAtLast(PollContext& context);

  // When OnDeadline() wants to be called; kNever when not. Moves with every other call: the engine
  // looks at it after each and keeps a timer that may fire too early, never too late.
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  uint64_t deadline_ns() const {
    if (qp.state() == IBV_QPS_RTS && qp.type() == IBV_QPT_RC && congestion_ == nullptr) [[likely]]
      return std::min(rc_requester_.deadline_ns(), rc_responder_.deadline_ns());
    return SeldomDeadlineNs();
  }
  void OnDeadline(PollContext& context);

  // Has what a packet needs of all this fetched into the cache: with many active queue pairs it is
  // cold, and would come in one line after the other. `sends`: a packet of the requester's.
  void Prefetch(bool sends) const;

  const QpDiagnostics& diagnostics() const { return diagnostics_; }
  // Whether the queue pair has entered IBV_QPS_ERR by itself, for an error of the transport's; true
  // once. The engine looks at it after each call.
  bool TakeFailure() { return failed_ && std::exchange(failed_, false); }
  // As RcRequester's; false for other types, which learn nothing of what they have sent.
  bool TakeProgress() { return rc_requester_.TakeProgress(); }

  verbs::QueuePair qp;

 private:
  struct Congestion {
    Congestion(const DcqcnParameters* dcqcn, QpDiagnostics* diagnostics)
        : parameters(dcqcn), notification(dcqcn, diagnostics), reaction(dcqcn) {}
    const DcqcnParameters* parameters;
    NotificationPoint notification;
    ReactionPoint reaction;
    uint64_t wait_until_ns = kNever;  // more is to be sent, and not before
  };

  void OnCnp(PollContext& context);
  void OnMarked(const wire::RocePacket& packet, PollContext& context);
  void EnterRtr();
  void EnterRts(ibv_qp_state before);
  void CheckDrained();
  // Drop::kCount: none. `expected`: what depends on expected_ alone has been checked.
  Drop ReasonToDrop(const wire::RocePacket& packet, bool expected) const;
  void Execute(const wire::RocePacket& packet, PollContext& context);
  bool TrySinglePacketMessage(wire::Opcode opcode, const uint8_t* frame, size_t length,
                              PollContext& context);
  bool Send(PollContext& context, int budget);
  bool SendPaced(PollContext& context, int budget);
  void NoteState();
  uint64_t SeldomDeadlineNs() const;

  std::unique_ptr<Congestion> congestion_;  // null: off
  ibv_qp_state noted_state_ = IBV_QPS_RESET;
  uint32_t expected_address_version_ = 0;  // with which expected_ was learned
  const wire::Transport transport_;        // of the packets that it takes
  bool failed_ = false;
  alignas(64) wire::ExpectedHeaders expected_;  // of the last packet that was accepted
  QpDiagnostics diagnostics_;
  alignas(64) RcRequester rc_requester_;
  alignas(64) RcResponder rc_responder_;
  Uc uc_;
  Ud ud_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_ENDPOINT_H_
