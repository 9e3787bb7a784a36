#include "stack/transport/rc_requester.h"

#include <algorithm>
#include <utility>

#include "stack/transport/gather.h"
#include "stack/transport/scatter.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

using verbs::SendWqe;
using wire::Opcode;

bool IsRead(const SendWqe& wqe) { return wqe.opcode == IBV_WR_RDMA_READ; }
bool IsWrite(const SendWqe& wqe) {
  return wqe.opcode == IBV_WR_RDMA_WRITE || wqe.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool HasImmediate(const SendWqe& wqe) {
  return wqe.opcode == IBV_WR_SEND_WITH_IMM || wqe.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

Opcode DataOpcode(const SendWqe& wqe, bool first, bool last) {
  const bool immediate = HasImmediate(wqe);
  if (IsWrite(wqe)) {
    if (first && last) return immediate ? Opcode::kRcWriteOnlyImm : Opcode::kRcWriteOnly;
    if (first) return Opcode::kRcWriteFirst;
    if (last) return immediate ? Opcode::kRcWriteLastImm : Opcode::kRcWriteLast;
    return Opcode::kRcWriteMiddle;
  }
  if (first && last) return immediate ? Opcode::kRcSendOnlyImm : Opcode::kRcSendOnly;
  if (first) return Opcode::kRcSendFirst;
  if (last) return immediate ? Opcode::kRcSendLastImm : Opcode::kRcSendLast;
  return Opcode::kRcSendMiddle;
}

}  // namespace

void RcRequester::Start() {
  Stop();
  builder_.Reset(&qp_->path, qp_->qpn(), Qpn{qp_->attr.dest_qp_num});
  next_psn_ = una_ = max_sent_ = Psn(qp_->attr.sq_psn);
  retry_left_ = qp_->attr.retry_cnt;
  rnr_left_ = qp_->attr.rnr_retry;
  current_ = qp_->sq_head();
}

void RcRequester::Stop() {
  current_ = qp_->sq_tail();
  current_packet_ = 0;
  reads_outstanding_ = read_psns_outstanding_ = 0;
  went_back_ = false;
  local_error_ = IBV_WC_SUCCESS;
  ack_deadline_ns_ = rnr_until_ns_ = kNever;
  timed_at_ns_ = kNever;
  round_trip_ns_ = deviation_ns_ = 0;
  probes_ = 0;
  nak_at_ns_ = 0;
  answer_resends_ = false;
  DisarmProbe();
}

bool RcRequester::Transmit(PollContext& context, int* budget) {
  if (probe_due_) {
    if (*budget == 0 || context.egress.room() == 0) return true;
    const Step step = SendProbe(context);
    if (step == Step::kNoBuffer) return true;
    if (step == Step::kSent) --*budget;
    probe_due_ = false;
  }
  while (current_ != qp_->sq_tail() && local_error_ == IBV_WC_SUCCESS && rnr_until_ns_ == kNever) {
    if (*budget == 0 || context.egress.room() == 0) return true;
    switch (SendNext(context)) {
      case Step::kSent:
        --*budget;
        break;
      case Step::kWait:
        return false;
      case Step::kNoBuffer:
        return true;
    }
  }
  return false;
}

RcRequester::Step RcRequester::SendNext(PollContext& context) {
  SendWqe& wqe = qp_->sq(current_);
  if (!wqe.numbered) {
    // PSNs outstanding must span less than half of their circle, or old and new look alike.
    if (static_cast<uint32_t>(Distance(una_, next_psn_)) + wqe.packets >= Psn::kWindow) {
      return Step::kWait;
    }
    wqe.numbered = true;
    wqe.first_psn = next_psn_;
    next_psn_ += wqe.packets;
  }
  if ((wqe.send_flags & IBV_SEND_FENCE) != 0 && reads_outstanding_ > 0) return Step::kWait;
  return IsRead(wqe) ? SendReadRequest(wqe, context) : SendData(wqe, context);
}

// Sends the oldest unacknowledged packet again (of a READ: asks for what is missing), leaving what
// is being sent where it is.
RcRequester::Step RcRequester::SendProbe(PollContext& context) {
  if (!HasHead() || !Head().numbered) return Step::kWait;
  const auto oldest = static_cast<uint32_t>(Distance(Head().first_psn, una_));
  if (current_ == qp_->sq_head() && current_packet_ <= oldest) return Step::kWait;
  const uint32_t current = current_, current_packet = current_packet_;
  const uint32_t reads = reads_outstanding_, read_psns = read_psns_outstanding_;
  current_ = qp_->sq_head();
  current_packet_ = oldest;
  reads_outstanding_ = read_psns_outstanding_ = 0;
  probing_ = true;
  const bool is_read = IsRead(Head());
  const Step step = is_read ? SendReadRequest(Head(), context) : SendData(Head(), context);
  probing_ = false;
  if (local_error_ != IBV_WC_SUCCESS) return step;  // its memory is gone: this is where it stops
  current_ = current;
  current_packet_ = current_packet;
  reads_outstanding_ = reads;
  read_psns_outstanding_ = read_psns;
  if (step == Step::kSent) answer_resends_ = !is_read;
  return step;
}

RcRequester::Step RcRequester::SendReadRequest(SendWqe& wqe, PollContext& context) {
  if (qp_->attr.max_rd_atomic == 0) {  // the peer grants no READs at all: it would wait for ever
    FailWhenReached(IBV_WC_LOC_QP_OP_ERR);
    return Step::kWait;
  }
  if (reads_outstanding_ >= qp_->attr.max_rd_atomic) return Step::kWait;
  const Psn psn = wqe.first_psn + current_packet_;
  const uint32_t offset = current_packet_ * qp_->PathMtuBytes();
  if (!builder_.Begin({.opcode = Opcode::kRcReadRequest,
                       .psn = psn,
                       .ack_request = true,
                       .ext_bytes = wire::kRethBytes},
                      context)) {
    return Step::kNoBuffer;
  }
  wire::EmitReth(
      {.address = wqe.remote_address + offset, .rkey = wqe.rkey, .length = wqe.length - offset},
      builder_.ext());
  builder_.EndHeaders();
  builder_.Finish(context);
  ++reads_outstanding_;
  read_psns_outstanding_ += wqe.packets - current_packet_;
  Sent(psn, wqe.first_psn + wqe.packets, context);
  ++current_;
  current_packet_ = 0;
  return Step::kSent;
}

RcRequester::Step RcRequester::SendData(SendWqe& wqe, PollContext& context) {
  const uint32_t mtu = qp_->PathMtuBytes();
  const uint32_t offset = current_packet_ * mtu;
  const uint32_t bytes = std::min(mtu, wqe.length - offset);
  const bool first = current_packet_ == 0;
  const bool last = current_packet_ + 1 == wqe.packets;
  const Psn psn = wqe.first_psn + current_packet_;
  const uint32_t in_flight = static_cast<uint32_t>(Distance(una_, psn)) - read_psns_outstanding_;
  if (in_flight >= kMaxInFlight) return Step::kWait;

  const bool reth = first && IsWrite(wqe);
  const bool immediate = last && HasImmediate(wqe);
  if (!builder_.Begin(
          {.opcode = DataOpcode(wqe, first, last),
           .psn = psn,
           .solicited = last && (wqe.send_flags & IBV_SEND_SOLICITED) != 0,
           // A probe is nothing but a question.
           .ack_request = probing_ || last || psn.value() % kAckEvery == kAckEvery - 1 ||
                          in_flight + 1 == kMaxInFlight,
           .ext_bytes = static_cast<uint8_t>((reth ? wire::kRethBytes : 0) +
                                             (immediate ? wire::kImmediateBytes : 0)),
           .payload_bytes = bytes},
          context)) {
    return Step::kNoBuffer;
  }
  if (reth) {
    wire::EmitReth({.address = wqe.remote_address, .rkey = wqe.rkey, .length = wqe.length},
                   builder_.ext());
  }
  if (immediate) {
    wire::EmitImmediate(wqe.immediate_be, builder_.ext() + (reth ? wire::kRethBytes : 0));
  }
  builder_.EndHeaders();
  if (!Gather(*qp_, current_, offset, bytes, builder_)) {
    builder_.Abandon();
    FailWhenReached(IBV_WC_LOC_PROT_ERR);
    return Step::kWait;
  }
  builder_.Finish(context);
  Sent(psn, psn + 1, context);
  if (last) {
    ++current_;
    current_packet_ = 0;
  } else {
    ++current_packet_;
  }
  return Step::kSent;
}

void RcRequester::Sent(Psn psn, Psn end, PollContext& context) {
  if (Before(psn, max_sent_)) {
    ++context.counters.retransmitted_pkts;
    timed_at_ns_ = kNever;  // an answer could be to either
  } else if (timed_at_ns_ == kNever) {
    timed_psn_ = psn;
    timed_at_ns_ = context.now_ns;
  }
  if (Before(max_sent_, end)) max_sent_ = end;
  if (ack_deadline_ns_ == kNever && qp_->attr.timeout != 0) {
    ack_deadline_ns_ = context.now_ns + wire::TimeoutCodeNs(qp_->attr.timeout);
  }
  if (probe_deadline_ns_ == kNever) ArmProbe(context.now_ns);
}

void RcRequester::MeasureRoundTrip(uint64_t now_ns) {
  if (timed_at_ns_ == kNever || !Before(timed_psn_, una_)) return;
  const uint64_t sample = now_ns - timed_at_ns_;
  timed_at_ns_ = kNever;
  if (round_trip_ns_ == 0) {
    round_trip_ns_ = std::max<uint64_t>(sample, 1);
    deviation_ns_ = sample / 2;
    return;
  }
  const uint64_t off = sample > round_trip_ns_ ? sample - round_trip_ns_ : round_trip_ns_ - sample;
  deviation_ns_ += (off >> 2) - (deviation_ns_ >> 2);
  round_trip_ns_ += (sample >> 3) - (round_trip_ns_ >> 3);
}

uint64_t RcRequester::ProbeNs() const {
  return round_trip_ns_ == 0 ? kFirstProbeNs
                             : std::max(kMinProbeNs, round_trip_ns_ + 4 * deviation_ns_);
}

void RcRequester::ArmProbe(uint64_t now_ns) {
  if (probes_ < kMaxProbes) probe_deadline_ns_ = now_ns + (ProbeNs() << probes_);
}

void RcRequester::DisarmProbe() {
  probe_deadline_ns_ = kNever;
  probe_due_ = false;
}

void RcRequester::OnResponse(const wire::RocePacket& packet, PollContext& context) {
  const Psn psn = packet.bth.psn;
  if (!HasHead() || Before(psn, una_) || !Before(psn, max_sent_)) {
    // An answer to what was answered already, or to what was never asked.
    context.counters.Count(Drop::kUnexpectedResponse);
    return;
  }
  switch (packet.info->operation) {
    case wire::Operation::kReadResponse:
      OnReadResponse(packet, context);
      break;
    case wire::Operation::kAck:
      OnAeth(packet.aeth(), psn, context);
      break;
    default:
      context.counters.Count(Drop::kUnexpectedResponse);
      return;
  }
  if (local_error_ != IBV_WC_SUCCESS && qp_->sq_head() == current_) Fail(local_error_);
  if (current_ != qp_->sq_tail()) qp_->Activate();
}

void RcRequester::OnAeth(const wire::Aeth& aeth, Psn psn, PollContext& context) {
  // An ACK acknowledges its own PSN, a NAK only what lies before it.
  const bool ack = wire::IsAck(aeth.syndrome);
  if (!AdvanceTo(ack ? psn + 1 : psn, context)) {
    ++context.counters.implied_nak_seq_err;
    if (!went_back_ && ChargeRetry(context)) {
      went_back_ = true;
      GoBack();
    }
    return;
  }
  if (ack) return;
  if (wire::IsRnrNak(aeth.syndrome)) {
    ++context.counters.rcvd_rnr_err;
    retry_left_ = qp_->attr.retry_cnt;  // the peer is there
    if (qp_->attr.rnr_retry != 7) {
      if (rnr_left_ == 0) {
        ++context.counters.retry_rnr_exceeded_err;
        Fail(IBV_WC_RNR_RETRY_EXC_ERR);
        return;
      }
      --rnr_left_;
    }
    GoBack();
    rnr_until_ns_ = context.now_ns + 1000ull * wire::RnrDelayUs(aeth.syndrome & 0x1F);
    return;
  }
  switch (aeth.syndrome) {
    case wire::kNakPsnSequence:
      ++context.counters.rcvd_seq_err;
      // A second NAK sooner than the first one's resends can have been answered is its copy. A
      // later one says that they are lost as well.
      if (psn == nak_psn_ &&
          context.now_ns < nak_at_ns_ + std::max<uint64_t>(1, round_trip_ns_ / 2)) {
        break;
      }
      nak_psn_ = psn;
      nak_at_ns_ = context.now_ns;
      if (ChargeRetry(context)) GoBack();
      break;
    case wire::kNakInvalidRequest:
      Fail(IBV_WC_REM_INV_REQ_ERR);
      break;
    case wire::kNakRemoteAccess:
      Fail(IBV_WC_REM_ACCESS_ERR);
      break;
    case wire::kNakRemoteOperational:
      Fail(IBV_WC_REM_OP_ERR);
      break;
    default:  // reserved codes
      context.counters.Count(Drop::kUnexpectedResponse);
  }
}

void RcRequester::OnReadResponse(const wire::RocePacket& packet, PollContext& context) {
  const Psn psn = packet.bth.psn;
  // A READ response acknowledges everything before its READ.
  bool missing = false;
  while (!missing && HasHead() && Head().numbered &&
         !Before(psn, Head().first_psn + Head().packets)) {
    missing = !AdvanceTo(Head().first_psn + Head().packets, context);
  }
  if (!missing && (!HasHead() || !Head().numbered || !IsRead(Head()))) {
    context.counters.Count(Drop::kUnexpectedResponse);
    return;
  }
  if (missing || Before(una_, psn)) {
    ++context.counters.implied_nak_seq_err;
    if (!went_back_ && ChargeRetry(context)) {
      went_back_ = true;
      GoBack();
    }
    return;
  }
  SendWqe& wqe = Head();
  const uint32_t index = static_cast<uint32_t>(Distance(wqe.first_psn, psn));
  const uint32_t offset = index * qp_->PathMtuBytes();
  const uint32_t expected = std::min(qp_->PathMtuBytes(), wqe.length - offset);
  if (packet.payload_length != expected) {
    Fail(IBV_WC_BAD_RESP_ERR);
    return;
  }
  if (!Scatter(*qp_->init().pd, qp_->sq_sge(qp_->sq_head()), wqe.num_sge, offset, packet.payload(),
               expected)) {
    Fail(IBV_WC_LOC_PROT_ERR);
    return;
  }
  if (current_ != qp_->sq_head()) --read_psns_outstanding_;
  una_ = psn + 1;
  if (index + 1 == wqe.packets) {
    if (current_ != qp_->sq_head()) --reads_outstanding_;
    qp_->CompleteSend(IBV_WC_SUCCESS, wqe.length);
  }
  Progress(context);
}

bool RcRequester::AdvanceTo(Psn end, PollContext& context) {
  bool progress = false;
  bool complete = true;
  while (HasHead() && Head().numbered && Before(una_, end)) {
    const SendWqe& wqe = Head();
    if (IsRead(wqe)) {
      complete = false;
      break;
    }
    progress = true;
    const Psn wqe_end = wqe.first_psn + wqe.packets;
    if (Before(end, wqe_end)) {
      una_ = end;
      break;
    }
    una_ = wqe_end;
    if (!IsWrite(wqe)) ++context.counters.rdma_sends;
    qp_->CompleteSend(IBV_WC_SUCCESS);
  }
  if (progress) Progress(context);
  return complete;
}

void RcRequester::Progress(PollContext& context) {
  CatchUp();
  MeasureRoundTrip(context.now_ns);
  probes_ = 0;
  nak_at_ns_ = 0;
  DisarmProbe();
  retry_left_ = qp_->attr.retry_cnt;
  rnr_left_ = qp_->attr.rnr_retry;
  went_back_ = false;
  ack_deadline_ns_ = Before(una_, max_sent_) && qp_->attr.timeout != 0
                         ? context.now_ns + wire::TimeoutCodeNs(qp_->attr.timeout)
                         : kNever;
  if (!Before(una_, max_sent_)) {
    answer_resends_ = false;
    return;
  }
  if (std::exchange(answer_resends_, false)) {
    GoBack();
  } else {
    ArmProbe(context.now_ns);
  }
}

// After a GoBack() a late acknowledgement can overtake what is being sent again.
void RcRequester::CatchUp() {
  const uint32_t head = qp_->sq_head();
  if (static_cast<int32_t>(current_ - head) < 0) {
    current_ = head;
    current_packet_ = 0;
  }
  if (current_ == head && HasHead() && Head().numbered) {
    const int32_t done = Distance(Head().first_psn, una_);
    current_packet_ = std::max(current_packet_, static_cast<uint32_t>(std::max(done, 0)));
  }
}

bool RcRequester::ChargeRetry(PollContext& context) {
  if (retry_left_ == 0) {
    ++context.counters.retry_exceeded_err;
    Fail(IBV_WC_RETRY_EXC_ERR);
    return false;
  }
  --retry_left_;
  ++context.counters.completer_retry_err;
  return true;
}

void RcRequester::GoBack() {
  current_ = qp_->sq_head();
  current_packet_ = 0;
  reads_outstanding_ = read_psns_outstanding_ = 0;
  ack_deadline_ns_ = kNever;
  timed_at_ns_ = kNever;
  answer_resends_ = false;
  DisarmProbe();
  // What could not be sent is tried again: its memory may be there this time, and if not, it fails
  // again in its turn.
  local_error_ = IBV_WC_SUCCESS;
  CatchUp();
  qp_->Activate();
}

void RcRequester::FailWhenReached(ibv_wc_status status) {
  local_error_ = status;
  if (qp_->sq_head() == current_) Fail(status);
}

void RcRequester::Fail(ibv_wc_status status) {
  qp_->CompleteSend(status);
  qp_->EnterError();
  Stop();
}

void RcRequester::OnDeadline(PollContext& context) {
  if (rnr_until_ns_ <= context.now_ns) {
    rnr_until_ns_ = kNever;
    qp_->Activate();
  }
  if (probe_deadline_ns_ <= context.now_ns) {
    probe_deadline_ns_ = kNever;
    if (rnr_until_ns_ == kNever && ack_deadline_ns_ > context.now_ns) {
      ++probes_;
      probe_due_ = true;
      ++context.counters.tail_probes;
      ArmProbe(context.now_ns);
      qp_->Activate();
    }
  }
  if (ack_deadline_ns_ <= context.now_ns) {
    ack_deadline_ns_ = kNever;
    ++context.counters.local_ack_timeout_err;
    went_back_ = false;
    if (ChargeRetry(context)) GoBack();
  }
}

}  // namespace pollux::transport
