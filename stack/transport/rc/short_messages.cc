#include <algorithm>
#include <cstdint>

#include "stack/transport/message/short_frames.h"
#include "stack/transport/rc/rc_requester.h"

namespace pollux::transport {

// Sends at most `most` messages, the first with `psn`, while `in_flight` packets are in flight;
// returns their number. kOne: `most` is 1. A message alone, for which the compiler then makes no
// loop, takes an eighth fewer instructions to send.
template <bool kOne>
[[gnu::always_inline]] inline uint32_t RcRequester::SendShortFrames(Psn psn, uint32_t in_flight,
                                                                    uint32_t most,
                                                                    PollContext& context) {
  const uint32_t begin = cursor_.index();
  const uint32_t end = qp_->sq_tail();
  ShortFrames<kOne> frames(builder_, context.egress, most);
  const uint32_t ack_mask = EveryMessageAsks(context.now_ns) ? 0 : flight_.ack_every() - 1;
  const uint32_t window_room = flight_.packets() - in_flight;
  bool asks_at_once = in_flight != 0 && context.now_ns - ack_asked_ns_ >= kAckEveryNs;
  const memory::ProtectionDomain& pd = *qp_->init().pd;
  const memory::MemoryRegion* region = nullptr;
  Psn asked_end = asked_until_;
  uint64_t sent_bytes = 0;
  uint32_t sent = 0;
  while (sent < frames.room()) {
    verbs::SendWqe& wqe = qp_->sq(begin + sent);
    const ibv_sge& sge = wqe.element;
    if (!wqe.is_single_packet || wqe.length >= PacketBuilder::kLongPayload || frames.TurnIsOver())
        [[unlikely]]
      break;
    if (region == nullptr || region->key != sge.lkey) [[unlikely]]
      region = pd.regions->FindLocal(pd, sge.lkey, 0);
    if (region == nullptr || !region->Contains(sge.addr, wqe.length)) [[unlikely]]
      break;
    const uint32_t next = begin + sent + 1;
    const bool ack_request = (psn.value() & ack_mask) == ack_mask || wqe.asks_ack() ||
                             asks_at_once || sent + 1 == window_room ||
                             (!kOne && next != end && qp_->sq(next).is_local());
    frames.Add(wqe, psn, ack_request, region->At(sge.addr));
    wqe.numbered = true;
    wqe.first_psn = psn;
    sent_bytes += wqe.length;
    psn += 1;
    ++sent;
    if (ack_request) {
      asks_at_once = false;
      asked_end = psn;
      rtt_.Start(wqe.first_psn, context.now_ns);
    }
    if (kOne) break;
  }
  if (sent == 0) return 0;
  frames.Finish(context.now_ns);
  // A request for an acknowledgement, or a first packet in flight, restarts the interval
  // (kAckEveryNs), as in SendNextPacket().
  if (asked_end != asked_until_ || in_flight == 0) ack_asked_ns_ = context.now_ns;
  asked_until_ = asked_end;
  cursor_.AdvanceMessages(sent);
  next_psn_ = max_sent_ = psn;
  diagnostics_->CountSent(sent, sent_bytes);
  ArmAfterSending(context.now_ns);
  return sent;
}

bool RcRequester::SendShortMessages(PollContext& context, int* budget) {
  const verbs::SendWqe& first = cursor_.wqe();
  Psn psn = first.numbered ? first.first_psn : next_psn_;
  // Retransmissions are left to SendNext().
  if (!first.is_single_packet || Before(psn, max_sent_) || !builder_.CanUseShortFrames() ||
      context.egress.frame_room() < kMaxShortFrameBytes) {
    return false;
  }
  // As SendNextPacket().
  const uint32_t unanswered = static_cast<uint32_t>(Distance(una_, psn)) - cursor_.read_psns();
  const uint32_t in_flight =
      std::min(unanswered, static_cast<uint32_t>(std::max(0, Distance(restart_, psn))));
  const uint32_t most_in_flight = flight_.packets();
  if (unanswered >= kMaxInFlight || in_flight >= most_in_flight || *budget <= 0 ||
      context.egress.room() == 0) {
    return false;
  }
  const uint32_t waiting = qp_->sq_tail() - cursor_.index();
  const uint32_t sent =
      waiting == 1 ? SendShortFrames<true>(psn, in_flight, 1, context)
                   : SendShortFrames<false>(
                         psn, in_flight,
                         std::min({waiting, most_in_flight - in_flight, kMaxInFlight - unanswered,
                                   static_cast<uint32_t>(*budget)}),
                         context);
  *budget -= static_cast<int>(sent);
  return sent != 0;
}

}  // namespace pollux::transport
