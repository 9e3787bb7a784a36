#include "stack/transport/uc.h"

#include "stack/base/planted_fault.h"
#include "stack/transport/message/local_operation.h"
#include "stack/transport/message/outbound_message.h"

namespace pollux::transport {

void Uc::StartReceiving() {
  expected_psn_ = Psn(qp_->attr.rq_psn);
  communication_established_ = false;
  message_.Reset();
}

void Uc::StartSending() {
  next_psn_ = Psn(qp_->attr.sq_psn);
  ResumeSending();
}

void Uc::ResumeSending() {
  builder_.Reset(&qp_->path, qp_->qpn(), Qpn{qp_->attr.dest_qp_num}, {.data_ecn = qp_->data_ecn});
  packet_ = 0;
}

void Uc::DropMessage(Drop reason, PollContext& context) {
  diagnostics_->Count(reason, context.counters);
  message_.Reset();
}

void Uc::OnPacket(const wire::RocePacket& packet, PollContext& context) {
  if (!communication_established_) {
    communication_established_ = true;
    qp_->RaiseEvent(IBV_EVENT_COMM_EST);
  }
  // Whatever is missing, the message that it belonged to is lost. What begins another is taken from
  // where it begins.
  if (packet.bth.psn != expected_psn_ && !Planted(Fault::kGapUnnoticed)) {
    diagnostics_->Count(&Counters::out_of_seq_request, context.counters);
    message_.Reset();
  }
  expected_psn_ = packet.bth.psn + 1;
  const bool begins = (packet.info->position & (wire::kFirst | wire::kOnly)) != 0;
  if (begins) message_.Reset();
  if (!message_.SequenceIsLegal(packet) || !message_.LengthIsLegal(packet)) {
    DropMessage(Drop::kOutOfSequence, context);
    return;
  }
  using Result = InboundMessage::Result;
  switch (message_.Accept(packet, context)) {
    case Result::kPlaced:
    case Result::kComplete:
      break;
    case Result::kNotReady:
      DropMessage(Drop::kNoReceive, context);
      break;
    case Result::kTooLong:
      DropMessage(Drop::kReceiveTooSmall, context);
      // rxe completes it, too (as REM_INV_REQ_ERR). Programs post another receive for each
      // completion; without this one, the queue pairs that share the queue would be one receive
      // short.
      if (qp_->srq() != nullptr) qp_->FailRecv(IBV_WC_LOC_LEN_ERR);
      break;
    case Result::kInvalidRequest:
    case Result::kAccess:
      DropMessage(Drop::kRefused, context);
      break;
    case Result::kReceiveFault:
    case Result::kInvalidateFault:  // UC has no such opcode
      diagnostics_->Event(IBV_EVENT_QP_FATAL);
      qp_->RaiseEvent(IBV_EVENT_QP_FATAL);
      qp_->EnterError();
      break;
  }
}

bool Uc::Transmit(PollContext& context, int* budget) {
  while (qp_->sends() && qp_->sq_head() != qp_->sq_tail()) {
    if (qp_->state() == IBV_QPS_SQD && !HasBegun()) return false;
    if (*budget == 0 || context.egress.room() == 0 || context.egress.TurnIsOver()) return true;
    if (!SendNext(context)) return true;
    --*budget;
  }
  return false;
}

// False when there was no mbuf.
bool Uc::SendNext(PollContext& context) {
  const uint32_t index = qp_->sq_head();
  const verbs::SendWqe& wqe = qp_->sq(index);
  if (wqe.is_local()) {
    qp_->FinishSend(ExecuteLocal(*qp_, wqe));
    return true;
  }
  switch (SendMessagePacket(*qp_, index, packet_, next_psn_, false, builder_, context)) {
    case BuildResult::kBuilt:
      break;
    case BuildResult::kNoBuffer:
      return false;
    case BuildResult::kLocalFault:
      qp_->FinishSend(IBV_WC_LOC_PROT_ERR);
      return true;
  }
  next_psn_ += 1;
  if (++packet_ < wqe.packets) return true;
  packet_ = 0;
  if (!wqe.is_write()) diagnostics_->Count(&Counters::rdma_sends, context.counters);
  qp_->FinishSend(IBV_WC_SUCCESS);
  return true;
}

}  // namespace pollux::transport
