// The requester side of a reliable connection: sends work requests, takes responses, retransmits.
#ifndef POLLUX_STACK_TRANSPORT_RC_REQUESTER_H_
#define POLLUX_STACK_TRANSPORT_RC_REQUESTER_H_

#include <cstdint>
#include <limits>

#include "stack/base/types.h"
#include "stack/transport/packet_builder.h"
#include "stack/transport/poll_context.h"
#include "stack/transport/round_trip.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// Go-back-N: everything from the oldest unacknowledged PSN is sent again after a NAK, a missing
// READ or atomic response or a time-out. Owned by one worker. Source: IB specification 9.7.
class RcRequester {
 public:
  // Request packets in flight. As rxe's: its sockets hold no more.
  static constexpr uint32_t kMaxInFlight = 128;
  // At the latest after this many packets one asks for an acknowledgement.
  static constexpr uint32_t kAckEvery = 32;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  // Without an answer for a measured round trip (and its variation), the oldest unacknowledged
  // packet is sent again: it makes any go-back-N peer say how far it is, long before the local ACK
  // timeout. Probes back off, and are no retries: when they stay unanswered the time-out decides.
  static constexpr uint64_t kFirstProbeNs = 10'000'000;  // before a round trip was measured
  static constexpr uint64_t kMinProbeNs = 500'000;       // above a scheduler's usual stalls
  static constexpr int kMaxProbes = 6;                   // since the last progress

  explicit RcRequester(verbs::QueuePair* qp) : qp_(qp) {}

  // Takes the attributes of the transition to RTS.
  void Start();
  // Forgets everything under way (RESET, ERR).
  void Stop();

  // A response at or before the queue pair's own PSNs: ACK, NAK, READ response, ATOMIC ACK. Checked
  // for state, address and ICRC already.
  void OnResponse(const wire::RocePacket& packet, PollContext& context);

  // Sends up to `*budget` packets and takes them off it. True when more could be sent at once.
  bool Transmit(PollContext& context, int* budget);

  uint64_t deadline_ns() const {
    const uint64_t timer =
        ack_deadline_ns_ < probe_deadline_ns_ ? ack_deadline_ns_ : probe_deadline_ns_;
    return timer < rnr_until_ns_ ? timer : rnr_until_ns_;
  }
  void OnDeadline(PollContext& context);

 private:
  enum class Step : uint8_t { kSent, kLocal, kWait, kNoBuffer };

  Step SendNext(PollContext& context);
  Step SendProbe(PollContext& context);
  Step ExecuteNext(verbs::SendWqe& wqe);
  void CompleteLocals();
  Step SendDataRequest(verbs::SendWqe& wqe, PollContext& context);
  Step SendData(verbs::SendWqe& wqe, PollContext& context);
  void Sent(Psn psn, Psn end, PollContext& context);
  uint64_t ProbeNs() const;  // how long to wait for an answer
  void ArmProbe(uint64_t now_ns);
  void DisarmProbe();

  void OnAeth(const wire::Aeth& aeth, Psn psn, PollContext& context);
  void OnDataResponse(const wire::RocePacket& packet, PollContext& context);
  ibv_wc_status PlaceResponse(const wire::RocePacket& packet, const verbs::SendWqe& wqe,
                              uint32_t index);

  // Acknowledges everything before `end`; false at a READ or atomic whose response is missing.
  bool AdvanceTo(Psn end, PollContext& context);
  void Progress(PollContext& context);
  void CatchUp();
  // Charges a retry; false when none was left and the queue pair has failed.
  bool ChargeRetry(PollContext& context);
  void GoBack();
  void Fail(ibv_wc_status status);
  void FailWhenReached(ibv_wc_status status);

  verbs::SendWqe& Head() { return qp_->sq(qp_->sq_head()); }
  bool HasHead() const { return qp_->sq_head() != qp_->sq_tail(); }

  verbs::QueuePair* qp_;
  PacketBuilder builder_;
  Psn next_psn_;                 // for the next work request that is numbered
  Psn una_;                      // oldest unacknowledged
  Psn max_sent_;                 // one past the highest ever sent
  uint32_t current_ = 0;         // index of the work request being sent
  uint32_t current_packet_ = 0;  // and the next packet of it
  // READs and atomics sent since the last GoBack() and not yet answered, and the PSNs of their
  // responses.
  uint32_t reads_outstanding_ = 0;
  uint32_t read_psns_outstanding_ = 0;
  uint8_t retry_left_ = 0;
  uint8_t rnr_left_ = 0;
  bool went_back_ = false;                      // since the last progress, for a missing response
  ibv_wc_status local_error_ = IBV_WC_SUCCESS;  // of the current one, reported in its turn
  uint64_t ack_deadline_ns_ = kNever;
  uint64_t rnr_until_ns_ = kNever;

  RoundTrip round_trip_;
  uint64_t probe_deadline_ns_ = kNever;
  Psn nak_psn_;                  // of the last sequence NAK that was followed,
  uint64_t nak_at_ns_ = 0;       // and when; 0 since the last progress
  int probes_ = 0;               // since the last progress
  bool probe_due_ = false;       // to be sent in the next Transmit()
  bool probing_ = false;         // the packet under construction is one
  bool answer_resends_ = false;  // what a probed SEND or WRITE's answer leaves open is sent again
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_REQUESTER_H_
