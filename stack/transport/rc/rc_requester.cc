#include "stack/transport/rc/rc_requester.h"

#include <algorithm>
#include <utility>

#include "stack/base/planted_fault.h"
#include "stack/base/probe.h"
#include "stack/transport/message/local_operation.h"
#include "stack/transport/message/outbound_message.h"
#include "stack/transport/rc/data_request.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

// The status of the request that such a NAK is for; success for reserved codes.
ibv_wc_status StatusOfNak(uint8_t syndrome) {
  switch (syndrome) {
    case wire::kNakInvalidRequest:
      return IBV_WC_REM_INV_REQ_ERR;
    case wire::kNakRemoteAccess:
      return IBV_WC_REM_ACCESS_ERR;
    case wire::kNakRemoteOperational:
      return IBV_WC_REM_OP_ERR;
    default:
      return IBV_WC_SUCCESS;
  }
}

}  // namespace

using verbs::SendWqe;

static_assert(RcRequester::kMaxInFlight + kMaxReadWindow <= ReceivedPsnBitmap::kSpan);

void RcRequester::Start() {
  Stop();
  next_psn_ = una_ = max_sent_ = restart_ = executed_end_ = answered_end_ = asked_until_ =
      reported_una_ = Psn(qp_->attr.sq_psn);
  Resume();
}

void RcRequester::Resume() {
  const ibv_qp_attr& attr = qp_->attr;
  builder_.Reset(&qp_->path, qp_->qpn(), Qpn{attr.dest_qp_num}, {.data_ecn = qp_->data_ecn});
  retry_left_ = attr.retry_cnt;
  rnr_left_ = attr.rnr_retry;
  asks_always_ = qp_->init().sq_sig_all ||
                 (attr.timeout != 0 && wire::TimeoutCodeNs(attr.timeout) < kShortTimeoutNs);
  cursor_.Start();
}

void RcRequester::Stop() {
  cursor_.ToTail();
  arrived_.Clear();
  local_error_ = nak_status_ = IBV_WC_SUCCESS;
  ack_deadline_ns_ = rnr_until_ns_ = probe_deadline_ns_ = kNever;
  rtt_.Reset();
  flight_.Reset(qp_->PathMtuBytes());
  peer_ack_behavior_.Reset();
  repairs_.Clear();
  probes_ = 0;
  nak_at_ns_ = 0;
  oldest_due_ = repairs_due_ = answer_resends_ = resends_due_ = missing_charged_ = false;
}

// A packet requests an acknowledgement if the next packet would be sent too late to request it.
void RcRequester::SetPacketInterval(uint64_t interval_ns) {
  const uint64_t most_ns = interval_ns != 0 && flight_.lowered() ? kLossyAckEveryNs : kAckEveryNs;
  ack_every_ns_ = static_cast<uint32_t>(most_ns - std::min(most_ns, interval_ns));
}

bool RcRequester::Transmit(PollContext& context, int* budget) {
  // GoBack() stops all time-outs. If nothing can be sent now, READs and atomics still need theirs.
  const auto await_responses = [this, &context] {
    const bool waits = Before(una_, max_sent_) && qp_->sends();
    if (ack_deadline_ns_ == kNever && waits) ArmAfterSending(context.now_ns);
    return false;
  };
  if (repairs_due_) {
    if (SendRepairs(context, budget) == Step::kNoBuffer) return true;
    repairs_due_ = false;
  }
  if (oldest_due_) {
    if (*budget == 0 || context.egress.room() == 0) return true;
    const Step step = SendOldest(context);
    if (step == Step::kNoBuffer) return true;
    if (step == Step::kSent) --*budget;
    oldest_due_ = false;
  }
  if (rnr_until_ns_ != kNever) [[unlikely]] {
    // Another copy of the request may have been executed meanwhile.
    if (!Before(rnr_psn_, executed_end_)) return false;
    rnr_until_ns_ = kNever;
  }
  if (qp_->state() == IBV_QPS_RTS && local_error_ == IBV_WC_SUCCESS) {
    while (!cursor_.AtEnd() && SendShortMessages(context, budget)) {
      if (cursor_.AtEnd()) return false;  // with its time-outs running
    }
  }
  while (qp_->sends() && !cursor_.AtEnd() && local_error_ == IBV_WC_SUCCESS) {
    if (*budget == 0 || context.egress.room() == 0 || context.egress.TurnIsOver()) return true;
    switch (SendNext(context)) {
      case Step::kSent:
        --*budget;
        break;
      case Step::kLocal:
        break;
      case Step::kWait:
        return await_responses();
      case Step::kNoBuffer:
        return true;
      case Step::kFault:
        FailWhenReached(IBV_WC_LOC_PROT_ERR);
        return await_responses();
    }
  }
  return await_responses();
}

[[gnu::always_inline]] inline RcRequester::Step RcRequester::SendNext(PollContext& context) {
  SendWqe& wqe = cursor_.wqe();
  if (!wqe.numbered && qp_->state() == IBV_QPS_SQD) return Step::kWait;
  if (wqe.is_local()) return ExecuteNext(context);
  if (!wqe.numbered) {
    // PSNs outstanding must span less than half of their circle, or old and new look alike.
    if (static_cast<uint32_t>(Distance(una_, next_psn_)) + wqe.packets >= Psn::kWindow) {
      return Step::kWait;
    }
    wqe.numbered = true;
    wqe.first_psn = next_psn_;
    next_psn_ += wqe.packets;
  }
  if ((wqe.send_flags & IBV_SEND_FENCE) != 0 && cursor_.reads() > 0 && cursor_.packet() == 0 &&
      !Planted(Fault::kFenceIgnored)) {
    return Step::kWait;
  }
  return wqe.has_response() ? SendNextDataRequest(context) : SendNextPacket(context);
}

// Once, and in its turn. An invalidation waits for the requests before it, which may name its key.
RcRequester::Step RcRequester::ExecuteNext(PollContext& context) {
  SendWqe& wqe = cursor_.wqe();
  if (!wqe.executed) {
    if (wqe.opcode == IBV_WR_LOCAL_INV && cursor_.index() != qp_->sq_head()) return Step::kWait;
    if ((wqe.send_flags & IBV_SEND_FENCE) != 0 && cursor_.reads() > 0) return Step::kWait;
    const ibv_wc_status status = ExecuteLocal(*qp_, wqe);
    if (status != IBV_WC_SUCCESS) {
      FailWhenReached(status);
      return Step::kWait;
    }
    wqe.executed = wqe.numbered = true;
    wqe.first_psn = next_psn_;
  }
  cursor_.Advance(0);
  Retire(context);
  return Step::kLocal;
}

// Asks for the first gap of every READ request and atomic that the peer has answered and whose
// answer is not whole, unless it was asked for since. kNoBuffer: there is more.
RcRequester::Step RcRequester::SendRepairs(PollContext& context, int* budget) {
  for (uint32_t index = qp_->sq_head(); index != qp_->sq_tail(); ++index) {
    const SendWqe& wqe = qp_->sq(index);
    if (!wqe.numbered || !Before(wqe.first_psn, answered_end_)) break;
    if (wqe.has_response() && SendRepairsOf(index, context, budget) == Step::kNoBuffer) {
      return Step::kNoBuffer;
    }
    if (index == cursor_.index()) break;  // it sends the rest again itself
  }
  return Step::kSent;
}

RcRequester::Step RcRequester::SendRepairsOf(uint32_t index, PollContext& context, int* budget) {
  const SendWqe& wqe = qp_->sq(index);
  const uint32_t sent = index == cursor_.index() ? cursor_.packet() : wqe.packets;
  const auto answered = static_cast<uint32_t>(Distance(wqe.first_psn, answered_end_));
  const uint32_t limit = std::min(sent, answered);
  auto begin = static_cast<uint32_t>(std::max(0, Distance(wqe.first_psn, una_)));
  for (uint32_t request_end; begin < limit; begin = request_end) {
    request_end = cursor_.RequestEnd(wqe, begin);
    if (repairs_.Awaits(wqe.first_psn + begin, wqe.first_psn + request_end)) continue;
    const uint32_t most = std::min(limit, request_end) - begin;
    const uint32_t here = arrived_.Until(false, wqe.first_psn + begin, most);
    if (here == most) continue;
    if (repairs_.full()) return Step::kSent;
    if (*budget == 0 || context.egress.room() == 0) return Step::kNoBuffer;
    if (AskAgain(wqe, begin + here, context) == Step::kNoBuffer) return Step::kNoBuffer;
    --*budget;
    diagnostics_->Count(&Counters::implied_nak_seq_err, context.counters);
  }
  return Step::kSent;
}

// For the gap that begins at packet number `begin`: up to what has arrived, or the request's end.
RcRequester::Step RcRequester::AskAgain(const SendWqe& wqe, uint32_t begin, PollContext& context) {
  const Psn psn = wqe.first_psn + begin;
  const uint32_t end = begin + arrived_.Until(true, psn, cursor_.RequestEnd(wqe, begin) - begin);
  const Step step = AskFor(wqe, begin, end, context);
  if (step == Step::kSent) repairs_.Asked(psn, wqe.first_psn + end, max_sent_);
  return step;
}

// Sends the oldest unacknowledged packet again (of a READ: asks for what is missing up to what has
// arrived), whatever the cursor is at.
RcRequester::Step RcRequester::SendOldest(PollContext& context) {
  if (!HasHead() || !Head().numbered || !cursor_.Beyond(una_)) return Step::kWait;
  const SendWqe& wqe = Head();
  const auto packet = static_cast<uint32_t>(Distance(wqe.first_psn, una_));
  if (wqe.has_response()) return AskAgain(wqe, packet, context);
  const Step step = SendPacket(qp_->sq_head(), packet, true, context);
  if (step == Step::kFault) Fail(IBV_WC_LOC_PROT_ERR);
  if (step == Step::kSent) {
    answer_resends_ = true;
    probed_ns_ = context.now_ns;
    probed_psn_ = una_;
    probed_end_ = max_sent_;
    rtt_.SentAgain(una_, max_sent_);
  }
  return step;
}

// A READ, or the next request of a long one, or an atomic. After going back, what is missing of it.
RcRequester::Step RcRequester::SendNextDataRequest(PollContext& context) {
  const uint32_t depth = qp_->attr.max_rd_atomic;
  if (depth == 0) {  // the peer grants none at all: it would wait for ever
    FailWhenReached(IBV_WC_LOC_QP_OP_ERR);
    return Step::kWait;
  }
  if (cursor_.reads() >= depth) return Step::kWait;
  const SendWqe& wqe = cursor_.wqe();
  const uint32_t request_end = cursor_.RequestEnd(wqe, cursor_.packet());
  uint32_t begin = cursor_.packet();
  if (cursor_.read_psns() + request_end - begin > cursor_.read_window(wqe)) return Step::kWait;
  begin += arrived_.Until(false, wqe.first_psn + begin, request_end - begin);
  if (begin < request_end) {
    const uint32_t end = begin + arrived_.Until(true, wqe.first_psn + begin, request_end - begin);
    if (AskFor(wqe, begin, end, context) == Step::kNoBuffer) return Step::kNoBuffer;
  }
  cursor_.Advance(request_end);
  return begin < request_end ? Step::kSent : Step::kLocal;
}

RcRequester::Step RcRequester::AskFor(const SendWqe& wqe, uint32_t begin, uint32_t end,
                                      PollContext& context) {
  if (!SendDataRequest(*qp_, wqe, begin, end, builder_, context)) return Step::kNoBuffer;
  Sent(wqe.first_psn + begin, wqe.first_psn + end, true, context);
  return Step::kSent;
}

[[gnu::always_inline]] inline RcRequester::Step RcRequester::SendNextPacket(PollContext& context) {
  const SendWqe& wqe = cursor_.wqe();
  const uint32_t packet = cursor_.packet();
  const Psn psn = wqe.first_psn + packet;
  const uint32_t unanswered = static_cast<uint32_t>(Distance(una_, psn)) - cursor_.read_psns();
  if (unanswered >= kMaxInFlight) return Step::kWait;
  // What lies before the place that it went back to has arrived, answered or not.
  const uint32_t in_flight =
      std::min(unanswered, static_cast<uint32_t>(std::max(0, Distance(restart_, psn))));
  const bool large = IsLarge(wqe.length);
  const uint32_t most_in_flight = flight_.packets(large);
  if (in_flight >= most_in_flight) return Step::kWait;
  if (in_flight == 0) ack_asked_ns_ = context.now_ns;  // nothing waits for an answer
  const uint32_t ack_mask = flight_.ack_every(large) - 1;
  const bool ack_request = (packet + 1 == wqe.packets && Asks(wqe, context.now_ns)) ||
                           (psn.value() & ack_mask) == ack_mask ||
                           in_flight + 1 == most_in_flight ||
                           context.now_ns - ack_asked_ns_ >= ack_every_ns_;
  const Step step = SendPacket(cursor_.index(), packet, ack_request, context);
  if (step == Step::kSent) {
    if (ack_request) ack_asked_ns_ = context.now_ns;
    cursor_.Advance(packet + 1);
  }
  return step;
}

[[gnu::always_inline]] inline bool RcRequester::Asks(const SendWqe& wqe, uint64_t now_ns) const {
  if (wqe.asks_ack()) return true;
  // An invalidation behind it waits for its answer.
  const bool last = cursor_.index() + 1 == qp_->sq_tail();
  if (!last && qp_->sq(cursor_.index() + 1).is_local()) return true;
  return EveryMessageAsks(now_ns);
}

[[gnu::always_inline]] inline RcRequester::Step RcRequester::SendPacket(uint32_t index,
                                                                        uint32_t packet,
                                                                        bool ack_request,
                                                                        PollContext& context) {
  const Psn psn = qp_->sq(index).first_psn + packet;
  switch (SendMessagePacket(*qp_, index, packet, psn, ack_request, builder_, context)) {
    case BuildResult::kBuilt:
      break;
    case BuildResult::kNoBuffer:
      return Step::kNoBuffer;
    case BuildResult::kLocalFault:
      return Step::kFault;
  }
  Sent(psn, psn + 1, ack_request, context);
  return Step::kSent;
}

[[gnu::always_inline]] inline void RcRequester::Sent(Psn psn, Psn end, bool asked,
                                                     PollContext& context) {
  if (Before(psn, max_sent_)) {
    diagnostics_->Count(&Counters::retransmitted_pkts, context.counters);
    rtt_.SentAgain(psn, end);
  } else if (asked) {
    rtt_.Start(psn, context.now_ns);
  }
  if (asked && Before(asked_until_, end)) asked_until_ = end;
  if (Before(max_sent_, end)) max_sent_ = end;
  ArmAfterSending(context.now_ns);
}

void RcRequester::ArmUnarmed(uint64_t now_ns) {
  if (ack_deadline_ns_ == kNever && qp_->attr.timeout != 0) {
    ack_deadline_ns_ = now_ns + RetransmissionTimeout::AckNs(qp_->attr, retry_left_);
  }
  if (probe_deadline_ns_ == kNever) ArmProbe(now_ns);
}

void RcRequester::ArmProbe(uint64_t now_ns) {
  const bool lossy = flight_.lowered();
  if (probes_ < RetransmissionTimeout::MaxProbes(lossy)) {
    probe_deadline_ns_ = now_ns + (RetransmissionTimeout::ProbeNs(rtt_, lossy) << probes_);
  }
}

void RcRequester::OnResponse(const wire::RocePacket& packet, PollContext& context) {
  const Psn psn = packet.bth.psn;
  if (!HasHead() || Before(psn, una_) || !Before(psn, max_sent_)) {
    // An answer to what was answered already, or to what was never asked.
    const bool nak =
        packet.info->operation == wire::Operation::kAck && !wire::IsAck(packet.aeth().syndrome);
    if (!nak && Before(psn, una_)) rtt_.AnsweredAgain(psn);
    diagnostics_->Count(Drop::kUnexpectedResponse, context.counters);
    return;
  }
  switch (packet.info->operation) {
    case wire::Operation::kReadResponse:
    case wire::Operation::kAtomicAck:
      OnDataResponse(packet, context);
      break;
    case wire::Operation::kAck:
      OnAeth(packet.aeth(), psn, context);
      break;
    default:
      diagnostics_->Count(Drop::kUnexpectedResponse, context.counters);
      return;
  }
  if (local_error_ != IBV_WC_SUCCESS && qp_->sq_head() == cursor_.index()) Fail(local_error_);
  if (!cursor_.AtEnd() || oldest_due_ || repairs_due_) qp_->Activate();
}

void RcRequester::OnAeth(const wire::Aeth& aeth, Psn psn, PollContext& context) {
  // An ACK acknowledges its own PSN, a NAK only what lies before it.
  const bool ack = wire::IsAck(aeth.syndrome);
  if (ack && probes_ == 0 && !Before(una_, asked_until_)) peer_ack_behavior_.OnVolunteered();
  const Psn executed_end = ack ? psn + 1 : psn;
  Executed(executed_end);
  const bool lost = Answered(psn, executed_end);
  Retire(context);
  const bool missing = HasHead() && Before(una_, executed_end_);
  if (lost) AskForMissing(context);
  if (ack || !qp_->sends()) return;
  if (wire::IsRnrNak(aeth.syndrome)) {
    // A late copy: its request was executed meanwhile.
    if (Before(psn, executed_end_)) return;
    // On the last retry, the missing response is requested first; the peer repeats the NAK.
    if (missing && rnr_left_ == 0 && qp_->attr.rnr_retry != 7) {
      diagnostics_->Count(&Counters::rcvd_rnr_err, context.counters);
      return;
    }
    OnRnrNak(aeth.syndrome & 0x1F, psn, context);
    return;
  }
  if (aeth.syndrome == wire::kNakPsnSequence) {
    OnSequenceNak(psn, context);
    return;
  }
  const ibv_wc_status status = StatusOfNak(aeth.syndrome);
  if (status == IBV_WC_SUCCESS) {
    diagnostics_->Count(Drop::kUnexpectedResponse, context.counters);
  } else if (missing) {
    // It is not the oldest one that has failed: that one lacks a response, which may be late.
    nak_status_ = status;
    nak_status_psn_ = psn;
  } else {
    Fail(status);
  }
}

void RcRequester::OnRnrNak(uint8_t timer, Psn psn, PollContext& context) {
  diagnostics_->Count(&Counters::rcvd_rnr_err, context.counters);
  if (rnr_until_ns_ != kNever && psn == rnr_psn_) return;  // a copy of the one that is waited for
  retry_left_ = qp_->attr.retry_cnt;                       // the peer is there
  if (qp_->attr.rnr_retry != 7) {
    if (rnr_left_ == 0) {
      diagnostics_->Count(&Counters::retry_rnr_exceeded_err, context.counters);
      Fail(IBV_WC_RNR_RETRY_EXC_ERR);
      return;
    }
    --rnr_left_;
  }
  probe::Retransmit(qp_->qpn(), psn, probe::RetransmitCause::kRnrNak);
  GoBack(psn);
  rnr_psn_ = psn;
  rnr_until_ns_ = context.now_ns + 1000ull * wire::RnrDelayUs(timer);
}

void RcRequester::OnSequenceNak(Psn psn, PollContext& context) {
  diagnostics_->Count(&Counters::rcvd_seq_err, context.counters);
  if (Before(psn, executed_end_)) return;  // a late copy: the peer does not miss it any more
  // A NAK sooner than the resends can have been answered is a copy. A later one says they are lost.
  if (psn == nak_psn_ &&
      context.now_ns < nak_at_ns_ + std::max<uint64_t>(1, rtt_.smoothed_ns() / 2)) {
    return;
  }
  nak_psn_ = psn;
  nak_at_ns_ = context.now_ns;
  // All losses of one flight use up one retry. If a missing response has used it up already, this
  // NAK does not, unless progress since then has restored the retry.
  const bool charged = missing_charged_ && retry_left_ != qp_->attr.retry_cnt;
  if (!charged && !ChargeRetry(context)) return;
  flight_.OnLoss();
  probe::Retransmit(qp_->qpn(), psn, probe::RetransmitCause::kSequenceNak);
  GoBack(psn);
}

void RcRequester::OnDataResponse(const wire::RocePacket& packet, PollContext& context) {
  const Psn psn = packet.bth.psn;
  const uint32_t index = FindNumbered(psn);
  if (index == qp_->sq_tail() || !IsResponseTo(packet, qp_->sq(index)) || arrived_.Has(psn)) {
    diagnostics_->Count(Drop::kUnexpectedResponse, context.counters);
    return;
  }
  const auto number = static_cast<uint32_t>(Distance(qp_->sq(index).first_psn, psn));
  const ibv_wc_status status = PlaceResponse(packet, *qp_, index, number);
  // It acknowledges everything before its request.
  Executed(psn);
  rtt_.Answered(psn + 1, context.now_ns);
  if (status == IBV_WC_SUCCESS) arrived_.Add(psn);
  const bool lost = Answered(psn, psn);
  Retire(context);
  // What cannot be placed fails in its turn: till then it counts as lost.
  if (status != IBV_WC_SUCCESS && psn == una_) {
    Fail(status);
  } else if (nak_status_ != IBV_WC_SUCCESS && !Before(una_, nak_status_psn_)) {
    // A peer that acknowledges more after such a NAK does not keep to the rules.
    Fail(nak_status_);
  } else if (lost) {
    AskForMissing(context);
  }
}

// The work request that `psn` belongs to; the tail when there is none.
uint32_t RcRequester::FindNumbered(Psn psn) const {
  for (uint32_t index = qp_->sq_head(); index != qp_->sq_tail(); ++index) {
    const SendWqe& wqe = qp_->sq(index);
    if (!wqe.numbered) break;
    if (Before(psn, wqe.first_psn + wqe.packets)) return index;
  }
  return qp_->sq_tail();
}

// Retries count the losses at one place: a peer that goes on executing is there, even when the
// answer to an older READ stays missing meanwhile.
void RcRequester::Executed(Psn end) {
  if (!Before(executed_end_, end)) return;
  executed_end_ = end;
  retry_left_ = qp_->attr.retry_cnt;
}

// An answer with `psn` came, and the peer has answered all before `end`. Whether that shows a READ
// response or an ATOMIC ACK to be lost that is not asked for yet.
bool RcRequester::Answered(Psn psn, Psn end) {
  bool lost = !repairs_.empty() && repairs_.OnAnswer(psn, una_, arrived_);
  if (Before(end, answered_end_)) return true;  // it may have closed a gap that hid another
  const Psn begin = Before(answered_end_, una_) ? una_ : answered_end_;
  answered_end_ = end;
  if (!Before(begin, end)) return lost;
  const auto fresh = static_cast<uint32_t>(Distance(begin, end));
  return arrived_.Until(false, begin, fresh) < fresh || lost;
}

// Moves una_ over what is done: READs and atomics whose responses have arrived, other requests that
// the peer has executed.
void RcRequester::Retire(PollContext& context) {
  const Psn before = una_;
  uint64_t sends = 0;
  while (HasHead() && Head().numbered) {
    const SendWqe& wqe = Head();
    if (wqe.is_single_packet && Before(wqe.first_psn, executed_end_)) [[likely]] {
      una_ = wqe.first_psn + 1;
      sends += wqe.is_short_send;
      qp_->CompleteOldestSend(wqe);
      continue;
    }
    const Psn end = wqe.first_psn + wqe.packets;
    // Answers come in the order of the PSNs, and a FLUSH waits for no data: an answer to a later
    // request shows that it was executed. Linux's rxe does not repeat a lost response to it.
    if (wqe.has_response()) {
      while (Before(una_, end) && (arrived_.Take(una_) || (wqe.opcode == verbs::kWrFlush &&
                                                           Before(una_, executed_end_)))) {
        cursor_.Answered(una_);
        una_ += 1;
      }
    } else if (Before(una_, executed_end_)) {
      una_ = Before(executed_end_, end) ? executed_end_ : end;
    }
    if (Before(una_, end)) break;
    Complete(wqe, context);
  }
  if (una_ == before) return;
  diagnostics_->Count(&Counters::rdma_sends, context.counters, sends);
  qp_->TellSendsCompleted();
  if (Before(restart_, una_)) restart_ = una_;
  flight_.OnAcknowledged(static_cast<uint32_t>(Distance(before, una_)));
  Progress(context);
}

void RcRequester::Complete(const SendWqe& wqe, PollContext& context) {
  if (wqe.has_response()) {
    qp_->CompleteSend(IBV_WC_SUCCESS, wqe.length);
    return;
  }
  if (wqe.is_short_send || (!wqe.is_write() && !wqe.is_local()))
    diagnostics_->Count(&Counters::rdma_sends, context.counters);
  qp_->CompleteSend(IBV_WC_SUCCESS);
}

// Something that the peer has answered is lost. A loss at the oldest place uses up a retry.
void RcRequester::AskForMissing(PollContext& context) {
  if (repairs_due_ || !HasHead() || !Before(una_, answered_end_)) return;
  repairs_due_ = true;
  // A late answer to what was sent before makes this look lost again sooner than the peer can have
  // answered: that uses up no retry.
  if (!repairs_.Awaits(una_, una_ + 1) &&
      context.now_ns >= missing_at_ns_ + rtt_.smoothed_ns() / 2) {
    missing_at_ns_ = context.now_ns;
    missing_charged_ = ChargeRetry(context);
    if (!missing_charged_) return;  // the queue pair has failed
  }
  probe::Retransmit(qp_->qpn(), una_, probe::RetransmitCause::kMissingResponse);
}

void RcRequester::Progress(PollContext& context) {
  // What could not be sent again was executed the first time.
  if (cursor_.CatchUp(una_)) [[unlikely]]
    local_error_ = IBV_WC_SUCCESS;
  if (probes_ > 0 && answer_resends_) [[unlikely]]
    OnProbeAnswered(context.now_ns);
  rtt_.Answered(una_, context.now_ns);
  probes_ = 0;
  nak_at_ns_ = 0;
  probe_deadline_ns_ = kNever;
  oldest_due_ = false;
  retry_left_ = qp_->attr.retry_cnt;
  rnr_left_ = qp_->attr.rnr_retry;
  ack_deadline_ns_ = Before(una_, max_sent_) && qp_->attr.timeout != 0
                         ? context.now_ns + wire::TimeoutCodeNs(qp_->attr.timeout)
                         : kNever;
  // Of what was sent before the probe nothing was lost.
  if (!Before(una_, probed_end_)) answer_resends_ = resends_due_ = false;
  if (!Before(una_, max_sent_)) return;
  if (!answer_resends_) {
    ArmProbe(context.now_ns);
  } else if (una_ == executed_end_ && executed_end_ == probed_psn_ + 1) {
    // The probe's alone: behind the response to a READ, which executes what is before it, una_ is
    // further.
    probe::Retransmit(qp_->qpn(), una_, probe::RetransmitCause::kTailProbe);
    GoBack(una_);
  } else {
    // A peer that merely did not run answers what was sent before the probe first, one after the
    // other, and then the probe.
    resends_due_ = true;
    probe_deadline_ns_ = context.now_ns + RetransmissionTimeout::QuietNs(rtt_, flight_.lowered());
  }
}

// An answer a round trip after the probe is the probe's: what it repeated was lost, and the next
// loss is looked for sooner. One at another time comes from a peer or machine that stood still.
void RcRequester::OnProbeAnswered(uint64_t now_ns) {
  const uint64_t after_ns = now_ns - probed_ns_;
  if (after_ns >= rtt_.smoothed_ns() / 2 && after_ns <= 2 * rtt_.most_ns()) flight_.OnLoss();
}

// What lies behind what the peer has executed is lost. What it has executed may still miss its
// answer, and what is lost may have to wait for that: both time-outs go on.
void RcRequester::ResendUnanswered(PollContext& context) {
  const uint64_t ack_deadline_ns = ack_deadline_ns_;
  const Psn from = Before(una_, executed_end_) ? executed_end_ : una_;
  probe::Retransmit(qp_->qpn(), from, probe::RetransmitCause::kTailProbe);
  GoBack(from);
  ack_deadline_ns_ = ack_deadline_ns;
  ArmProbe(context.now_ns);
}

bool RcRequester::ChargeRetry(PollContext& context) {
  if (retry_left_ == 0) {
    diagnostics_->Count(&Counters::retry_exceeded_err, context.counters);
    Fail(IBV_WC_RETRY_EXC_ERR);
    return false;
  }
  --retry_left_;
  diagnostics_->Count(&Counters::completer_retry_err, context.counters);
  return true;
}

// `to` and everything behind it is sent again.
void RcRequester::GoBack(Psn to) {
  restart_ = Before(to, una_) ? una_ : to;
  if (Before(restart_, answered_end_)) answered_end_ = restart_;
  repairs_.ForgetFrom(restart_);
  cursor_.MoveTo(restart_, una_);
  ack_deadline_ns_ = probe_deadline_ns_ = kNever;
  rtt_.Cancel();
  answer_resends_ = resends_due_ = missing_charged_ = false;
  if (!cursor_.Beyond(una_)) oldest_due_ = false;
  // What could not be sent is tried again: its memory may be there this time, and if not, it fails
  // again in its turn.
  local_error_ = IBV_WC_SUCCESS;
  qp_->Activate();
}

void RcRequester::FailWhenReached(ibv_wc_status status) {
  local_error_ = status;
  if (qp_->sq_head() == cursor_.index()) Fail(status);
}

void RcRequester::Fail(ibv_wc_status status) {
  if (!HasHead()) return;  // a lost completion has flushed everything meanwhile
  diagnostics_->Failed(status);
  qp_->CompleteSend(status);
  qp_->EnterError();
  Stop();
}

void RcRequester::OnDeadline(PollContext& context) {
  if (rnr_until_ns_ <= context.now_ns) {
    rnr_until_ns_ = ack_deadline_ns_ = kNever;
    diagnostics_->Timer(FlightTimer::kRnrOver);
    qp_->Activate();
  }
  if (probe_deadline_ns_ <= context.now_ns) {
    probe_deadline_ns_ = kNever;
    if (resends_due_) {
      ResendUnanswered(context);
    } else if (rnr_until_ns_ == kNever && ack_deadline_ns_ > context.now_ns &&
               cursor_.Beyond(una_)) {  // otherwise it is sent again anyway
      ++probes_;
      if (!Before(una_, asked_until_)) peer_ack_behavior_.OnSilence(context.now_ns);
      diagnostics_->Timer(FlightTimer::kProbe);
      oldest_due_ = true;
      probe::Retransmit(qp_->qpn(), una_, probe::RetransmitCause::kTailProbe);
      diagnostics_->Count(&Counters::tail_probes, context.counters);
      ArmProbe(context.now_ns);
      qp_->Activate();
    }
  }
  if (ack_deadline_ns_ <= context.now_ns) {
    ack_deadline_ns_ = kNever;
    // A READ before the refused request has set this time-out. Nothing can be sent again until the
    // wait that the RNR NAK asked for has ended.
    if (rnr_until_ns_ != kNever) return;
    const verbs::LinkAddress::Value next_hop = qp_->path.link->Load();
    if (!next_hop.resolved && !next_hop.unanswered) {
      // Nothing has left yet: what asks for the next hop has retries of its own.
      ack_deadline_ns_ = context.now_ns + wire::TimeoutCodeNs(qp_->attr.timeout);
      return;
    }
    diagnostics_->Timer(FlightTimer::kAckTimeout);
    diagnostics_->Count(&Counters::local_ack_timeout_err, context.counters);
    if (context.resolver != nullptr) context.resolver->Suspect(qp_->path.link, context);
    if (ChargeRetry(context)) {
      flight_.OnLoss();
      probe::Retransmit(qp_->qpn(), una_, probe::RetransmitCause::kAckTimeout);
      GoBack(una_);
    }
  }
}

}  // namespace pollux::transport
