#include "stack/transport/rc_requester.h"

#include <algorithm>
#include <utility>

#include "stack/transport/local_operation.h"
#include "stack/transport/outbound_message.h"
#include "stack/transport/scatter.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

using verbs::SendWqe;
using wire::Opcode;

// Whether a response is of the kind that the request waits for.
bool Answers(const wire::RocePacket& response, const SendWqe& wqe) {
  return response.info->operation == wire::Operation::kAtomicAck ? wqe.is_atomic()
                                                                 : wqe.opcode == IBV_WR_RDMA_READ;
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
  round_trip_.Reset();
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
      case Step::kLocal:
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
  if (wqe.is_local()) return ExecuteNext(wqe);
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
  return wqe.brings_data() ? SendDataRequest(wqe, context) : SendData(wqe, context);
}

// Once, and in its turn. What is invalidated may be named by all requests before it, and those are
// sent again until they are answered: an invalidation waits for them.
RcRequester::Step RcRequester::ExecuteNext(SendWqe& wqe) {
  if (!wqe.executed) {
    if (wqe.opcode == IBV_WR_LOCAL_INV && current_ != qp_->sq_head()) return Step::kWait;
    if ((wqe.send_flags & IBV_SEND_FENCE) != 0 && reads_outstanding_ > 0) return Step::kWait;
    const ibv_wc_status status = ExecuteLocal(*qp_, wqe);
    if (status != IBV_WC_SUCCESS) {
      FailWhenReached(status);
      return Step::kWait;
    }
    wqe.executed = wqe.numbered = true;
    wqe.first_psn = next_psn_;
  }
  ++current_;
  current_packet_ = 0;
  CompleteLocals();
  return Step::kLocal;
}

void RcRequester::CompleteLocals() {
  while (HasHead() && Head().executed) qp_->CompleteSend(IBV_WC_SUCCESS);
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
  const bool brings_data = Head().brings_data();
  const Step step = brings_data ? SendDataRequest(Head(), context) : SendData(Head(), context);
  probing_ = false;
  // Its memory is gone: this is where it stops, or has failed already.
  if (local_error_ != IBV_WC_SUCCESS || qp_->state() != IBV_QPS_RTS) return step;
  current_ = current;
  current_packet_ = current_packet;
  reads_outstanding_ = reads;
  read_psns_outstanding_ = read_psns;
  if (step == Step::kSent) answer_resends_ = !brings_data;
  return step;
}

// A READ, or what is missing of it, or an atomic.
RcRequester::Step RcRequester::SendDataRequest(SendWqe& wqe, PollContext& context) {
  if (qp_->attr.max_rd_atomic == 0) {  // the peer grants none at all: it would wait for ever
    FailWhenReached(IBV_WC_LOC_QP_OP_ERR);
    return Step::kWait;
  }
  if (reads_outstanding_ >= qp_->attr.max_rd_atomic) return Step::kWait;
  const Psn psn = wqe.first_psn + current_packet_;
  const Opcode opcode = wqe.opcode == IBV_WR_RDMA_READ            ? Opcode::kRcReadRequest
                        : wqe.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? Opcode::kRcCompareSwap
                                                                  : Opcode::kRcFetchAdd;
  const size_t ext_bytes = wqe.is_atomic() ? wire::kAtomicEthBytes : wire::kRethBytes;
  if (!builder_.Begin({.opcode = opcode,
                       .psn = psn,
                       .ack_request = true,
                       .ext_bytes = static_cast<uint8_t>(ext_bytes)},
                      context)) {
    return Step::kNoBuffer;
  }
  if (wqe.is_atomic()) {
    const bool swaps = opcode == Opcode::kRcCompareSwap;
    wire::EmitAtomicEth({.address = wqe.remote_address,
                         .rkey = wqe.rkey,
                         .swap_or_add = swaps ? wqe.swap : wqe.compare_add,
                         .compare = swaps ? wqe.compare_add : 0},
                        builder_.ext());
  } else {
    const uint32_t offset = current_packet_ * qp_->PathMtuBytes();
    wire::EmitReth(
        {.address = wqe.remote_address + offset, .rkey = wqe.rkey, .length = wqe.length - offset},
        builder_.ext());
  }
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
  const bool last = current_packet_ + 1 == wqe.packets;
  const Psn psn = wqe.first_psn + current_packet_;
  const uint32_t in_flight = static_cast<uint32_t>(Distance(una_, psn)) - read_psns_outstanding_;
  if (in_flight >= kMaxInFlight) return Step::kWait;
  // A probe is nothing but a question.
  const bool ack_request =
      probing_ || last || psn.value() % kAckEvery == kAckEvery - 1 || in_flight + 1 == kMaxInFlight;
  switch (SendMessagePacket(*qp_, current_, current_packet_, psn, ack_request, builder_, context)) {
    case BuildResult::kBuilt:
      break;
    case BuildResult::kNoBuffer:
      return Step::kNoBuffer;
    case BuildResult::kLocalFault:
      FailWhenReached(IBV_WC_LOC_PROT_ERR);
      return Step::kWait;
  }
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
    round_trip_.Cancel();
  } else {
    round_trip_.Start(psn, context.now_ns);
  }
  if (Before(max_sent_, end)) max_sent_ = end;
  if (ack_deadline_ns_ == kNever && qp_->attr.timeout != 0) {
    ack_deadline_ns_ = context.now_ns + wire::TimeoutCodeNs(qp_->attr.timeout);
  }
  if (probe_deadline_ns_ == kNever) ArmProbe(context.now_ns);
}

uint64_t RcRequester::ProbeNs() const {
  return round_trip_.smoothed_ns() == 0 ? kFirstProbeNs
                                        : std::max(kMinProbeNs, round_trip_.most_ns());
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
    case wire::Operation::kAtomicAck:
      OnDataResponse(packet, context);
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
          context.now_ns < nak_at_ns_ + std::max<uint64_t>(1, round_trip_.smoothed_ns() / 2)) {
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

void RcRequester::OnDataResponse(const wire::RocePacket& packet, PollContext& context) {
  const Psn psn = packet.bth.psn;
  // It acknowledges everything before its request.
  bool missing = false;
  while (!missing && HasHead() && Head().numbered &&
         !Before(psn, Head().first_psn + Head().packets)) {
    missing = !AdvanceTo(Head().first_psn + Head().packets, context);
  }
  if (!missing && (!HasHead() || !Head().numbered || !Answers(packet, Head()))) {
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
  if (const ibv_wc_status status = PlaceResponse(packet, wqe, index); status != IBV_WC_SUCCESS) {
    Fail(status);
    return;
  }
  if (current_ != qp_->sq_head()) --read_psns_outstanding_;
  una_ = psn + 1;
  if (index + 1 == wqe.packets) {
    if (current_ != qp_->sq_head()) --reads_outstanding_;
    qp_->CompleteSend(IBV_WC_SUCCESS, wqe.length);
    CompleteLocals();
  }
  Progress(context);
}

ibv_wc_status RcRequester::PlaceResponse(const wire::RocePacket& packet, const SendWqe& wqe,
                                         uint32_t index) {
  const uint32_t offset = index * qp_->PathMtuBytes();
  const uint8_t* source = packet.payload();
  uint32_t bytes = std::min(qp_->PathMtuBytes(), wqe.length - offset);
  uint64_t original;  // host order, as the application finds it
  if (wqe.is_atomic()) {
    original = packet.atomic_ack();
    source = reinterpret_cast<const uint8_t*>(&original);
    bytes = sizeof original;
  } else if (packet.payload_length != bytes) {
    return IBV_WC_BAD_RESP_ERR;
  }
  return Scatter(*qp_->init().pd, qp_->sq_sge(qp_->sq_head()), wqe.num_sge, offset, source, bytes)
             ? IBV_WC_SUCCESS
             : IBV_WC_LOC_PROT_ERR;
}

bool RcRequester::AdvanceTo(Psn end, PollContext& context) {
  bool progress = false;
  bool complete = true;
  while (HasHead() && Head().numbered && Before(una_, end)) {
    const SendWqe& wqe = Head();
    if (wqe.brings_data()) {
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
    if (!wqe.is_write()) ++context.counters.rdma_sends;
    qp_->CompleteSend(IBV_WC_SUCCESS);
    CompleteLocals();
  }
  if (progress) Progress(context);
  return complete;
}

void RcRequester::Progress(PollContext& context) {
  CatchUp();
  round_trip_.Answered(una_, context.now_ns);
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
  round_trip_.Cancel();
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
