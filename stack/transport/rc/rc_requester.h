// The requester side of a reliable connection: sends work requests, processes responses,
// retransmits.
#ifndef POLLUX_STACK_TRANSPORT_RC_RC_REQUESTER_H_
#define POLLUX_STACK_TRANSPORT_RC_RC_REQUESTER_H_

#include <cstdint>
#include <limits>

#include "stack/base/prefetch.h"
#include "stack/base/types.h"
#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/packet_builder.h"
#include "stack/transport/message/poll_context.h"
#include "stack/transport/rc/in_flight_window.h"
#include "stack/transport/rc/peer_ack_behavior.h"
#include "stack/transport/rc/read_gap_tracker.h"
#include "stack/transport/rc/received_psn_bitmap.h"
#include "stack/transport/rc/retransmission_timeout.h"
#include "stack/transport/rc/rtt_estimator.h"
#include "stack/transport/rc/send_cursor.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// Go-back-N: after a NAK everything from its PSN on is sent again, after a timeout everything from
// the oldest unacknowledged PSN on. For READs and atomics, only missing responses are requested
// again: first the first gap of each request, and its later gaps after that one is closed. So a
// repeated READ request never starts before an earlier repetition: some peers (rxe) would drop it.
// Owned by one worker. Source: IB specification 9.7.
class RcRequester {
 public:
  static constexpr uint32_t kMaxInFlight = InFlightWindow::kMax;  // request packets
  // On a wire without losses, at least one in this many packets requests an acknowledgement
  // (InFlightWindow::ack_every()).
  static constexpr uint32_t kAckEvery = InFlightWindow::kMax / InFlightWindow::kAcksAFlight;
  // A packet that is sent this long after the last request for an acknowledgement requests one,
  // too, for a sender that must wait: well before it would probe.
  static constexpr uint64_t kAckEveryNs = 200'000;
  // The same for a sender that a rate limits, while losses make it probe sooner.
  static constexpr uint64_t kLossyAckEveryNs = RetransmissionTimeout::kLossyProbeNs / 2;
  // With a shorter local ACK timeout every message requests an acknowledgement: a peer that delays
  // it (RcResponder::kUnaskedNs) would let the timeout expire.
  static constexpr uint64_t kShortTimeoutNs = 1'000'000;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  RcRequester(verbs::QueuePair* qp, QpDiagnostics* diagnostics)
      : qp_(qp), diagnostics_(diagnostics), cursor_(qp), builder_(diagnostics) {}

  // Applies the attributes of the transition to RTS.
  void Start();
  // Continues after SQD, with a drained send queue and the current attributes.
  void Resume();
  // Forgets everything in progress (RESET, ERR).
  void Stop();

  // Handles an ACK, NAK, READ response or ATOMIC ACK. Its state, address and ICRC have been
  // checked.
  void OnResponse(const wire::RocePacket& packet, PollContext& context);

  // Sends up to `*budget` packets and subtracts their number from it. Returns true if more could be
  // sent at once. In SQD no work request is begun.
  bool Transmit(PollContext& context, int* budget);
  // The same for a queue pair in RTS that has only short messages to send, and room for them all.
  // Returns false if it has not sent everything: call Transmit() then.
  [[gnu::always_inline]] bool TransmitShort(PollContext& context, int* budget) {
    return !repairs_due_ && !oldest_due_ && rnr_until_ns_ == kNever &&
           local_error_ == IBV_WC_SUCCESS && !cursor_.AtEnd() &&
           SendShortMessages(context, budget) && cursor_.AtEnd();
  }
  // Tells the next Transmit() that congestion control limits it to one packet per `interval_ns`
  // (0: no limit). Packets then request acknowledgements early enough that the pauses between
  // packets cause no probes.
  void SetPacketInterval(uint64_t interval_ns);
  // Whether a work request was begun and is not complete.
  bool HasBegun() const { return HasHead() && qp_->sq(qp_->sq_head()).numbered; }

  // Whether the peer has acknowledged something new since the last call.
  bool TakeProgress() {
    const bool made = reported_una_ != una_;
    reported_una_ = una_;
    return made;
  }

  uint64_t deadline_ns() const {
    const uint64_t timer =
        ack_deadline_ns_ < probe_deadline_ns_ ? ack_deadline_ns_ : probe_deadline_ns_;
    return timer < rnr_until_ns_ ? timer : rnr_until_ns_;
  }
  void OnDeadline(PollContext& context);

  // For statistics.
  const RttEstimator& round_trip() const { return rtt_; }
  const InFlightWindow& window() const { return flight_; }

  // As Endpoint::Prefetch().
  void Prefetch() const { PrefetchLines(this, &repairs_); }

 private:
  // kLocal: done without a packet. kFault: the keys of the request's own memory do not allow it.
  enum class Step : uint8_t { kSent, kLocal, kWait, kNoBuffer, kFault };

  // Sends short messages at the front of the queue, as SendNext() would, up to the first request
  // that is not a short message or has to wait, and at most a burst of them. Returns false if it
  // sent nothing.
  bool SendShortMessages(PollContext& context, int* budget);
  template <bool kOne>
  uint32_t SendShortFrames(Psn psn, uint32_t in_flight, uint32_t most, PollContext& context);
  Step SendNext(PollContext& context);
  Step SendRepairs(PollContext& context, int* budget);
  Step SendRepairsOf(uint32_t index, PollContext& context, int* budget);
  Step SendOldest(PollContext& context);
  Step ExecuteNext(PollContext& context);
  Step SendNextDataRequest(PollContext& context);
  Step SendNextPacket(PollContext& context);
  // Whether the last packet of the request at the cursor should request an acknowledgement.
  bool Asks(const verbs::SendWqe& wqe, uint64_t now_ns) const;
  // Whether each message asks for an acknowledgement now.
  [[gnu::always_inline]] bool EveryMessageAsks(uint64_t now_ns) const {
    if (asks_always_) return true;
    // The program waits for room.
    if (2 * (qp_->sq_tail() - qp_->sq_head()) > qp_->init().cap.max_send_wr) return true;
    // Responses of a peer that delays them give no measure of the round trip.
    if (rtt_.smoothed_ns() == 0) return true;
    // A probe would be sent before the response of such a peer.
    if (flight_.lowered()) return true;
    return !peer_ack_behavior_.MayLeave(now_ns);
  }
  Step SendPacket(uint32_t index, uint32_t packet, bool ack_request, PollContext& context);
  Step AskFor(const verbs::SendWqe& wqe, uint32_t begin, uint32_t end, PollContext& context);
  Step AskAgain(const verbs::SendWqe& wqe, uint32_t begin, PollContext& context);
  // `asked`: the packet requests a response at once.
  void Sent(Psn psn, Psn end, bool asked, PollContext& context);
  [[gnu::always_inline]] void ArmAfterSending(uint64_t now_ns) {
    if (ack_deadline_ns_ == kNever || probe_deadline_ns_ == kNever) ArmUnarmed(now_ns);
  }
  void ArmUnarmed(uint64_t now_ns);
  void ArmProbe(uint64_t now_ns);

  void OnAeth(const wire::Aeth& aeth, Psn psn, PollContext& context);
  void OnRnrNak(uint8_t timer, Psn psn, PollContext& context);
  void OnSequenceNak(Psn psn, PollContext& context);
  void OnDataResponse(const wire::RocePacket& packet, PollContext& context);

  uint32_t FindNumbered(Psn psn) const;
  void Executed(Psn end);
  bool Answered(Psn psn, Psn end);
  void Retire(PollContext& context);
  void Complete(const verbs::SendWqe& wqe, PollContext& context);
  void AskForMissing(PollContext& context);
  void Progress(PollContext& context);
  void OnProbeAnswered(uint64_t now_ns);
  // Uses up a retry. Returns false if none was left and the queue pair has failed.
  bool ChargeRetry(PollContext& context);
  void GoBack(Psn to);
  void ResendUnanswered(PollContext& context);
  void Fail(ibv_wc_status status);
  void FailWhenReached(ibv_wc_status status);

  verbs::SendWqe& Head() { return qp_->sq(qp_->sq_head()); }
  bool HasHead() const { return qp_->sq_head() != qp_->sq_tail(); }

  // In the order in which a message uses the members, since with many active queue pairs they are
  // not in the cache. The engine reads the first three after every packet, the responder's
  // included.
  uint64_t ack_deadline_ns_ = kNever;
  uint64_t rnr_until_ns_ = kNever;
  uint64_t probe_deadline_ns_ = kNever;
  verbs::QueuePair* qp_;
  QpDiagnostics* diagnostics_;
  Psn next_psn_;  // for the next work request to be numbered
  Psn una_;       // oldest unacknowledged
  Psn max_sent_;  // one past the highest PSN ever sent
  Psn restart_;   // where it went back to, or una_ if that is later
  // The peer has executed everything before this, and has sent the responses that were needed.
  Psn executed_end_;
  Psn answered_end_;  // the same since it last went back: missing responses before it are lost
  SendCursor cursor_;
  InFlightWindow flight_;
  ibv_wc_status local_error_ = IBV_WC_SUCCESS;  // of the one at the cursor, reported in its turn
  Psn asked_until_;  // one past the highest PSN that requested a response
  uint8_t retry_left_ = 0;
  uint8_t rnr_left_ = 0;
  // By its attributes: all sends are signalled, or the local ACK timeout is shorter than
  // kShortTimeoutNs.
  bool asks_always_ = false;
  bool oldest_due_ = false;   // the oldest packet is to be sent again by the next Transmit()
  bool repairs_due_ = false;  // gaps are to be requested by the next Transmit()
  // Once a probe (a SEND or WRITE) is acknowledged, everything that is still unacknowledged is sent
  // again.
  bool answer_resends_ = false;
  bool resends_due_ = false;  // the same, at probe_deadline_ns_ if no more responses have arrived
  uint8_t probes_ = 0;        // since the last progress
  // kAckEveryNs, less for a sender that a rate limits; 0: every packet requests an ACK. Not for
  // short messages, each of which requests one while losses are recent.
  uint32_t ack_every_ns_ = kAckEveryNs;
  uint64_t ack_asked_ns_ = 0;  // when a packet last requested an ACK
  RttEstimator rtt_;
  PeerAckBehavior peer_ack_behavior_;
  uint64_t nak_at_ns_ = 0;  // when it acted on the last sequence NAK; 0 after progress
  PacketBuilder builder_;
  // These two hold PSNs of READs and atomics only; for other requests only empty() is checked.
  ReceivedPsnBitmap arrived_;   // of [una_, max_sent_)
  ReadGapTracker repairs_;      // of [una_, answered_end_) and of probed requests
  uint64_t probed_ns_ = 0;      // when a SEND or WRITE was last used as a probe
  uint64_t missing_at_ns_ = 0;  // when a missing response last used up a retry
  Psn nak_psn_;                 // of the last sequence NAK that was acted on
  // Of a NAK that ends the connection once an older READ or atomic has its response.
  ibv_wc_status nak_status_ = IBV_WC_SUCCESS;
  Psn nak_status_psn_;
  Psn probed_psn_;    // of that request
  Psn probed_end_;    // the end of what was sent before that
  Psn reported_una_;  // una_ at the last TakeProgress()
  Psn rnr_psn_;       // of the RNR NAK that set rnr_until_ns_
  // A missing response has used up a retry since the last GoBack().
  bool missing_charged_ = false;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RC_REQUESTER_H_
