#include "stack/transport/rc_responder.h"

#include <algorithm>

#include "stack/base/planted_fault.h"
#include "stack/transport/scatter.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

using wire::Opcode;

uint32_t PacketsOf(uint32_t length, uint32_t mtu) {
  return length == 0 ? 1 : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

}  // namespace

void RcResponder::Start() {
  Stop();
  builder_.Reset(&qp_->path, qp_->qpn(), Qpn{qp_->attr.dest_qp_num});
  expected_psn_ = Psn(qp_->attr.rq_psn);
  read_capacity_ = qp_->attr.max_dest_rd_atomic;
  reads_ = std::make_unique<Read[]>(std::max(read_capacity_, 1u));
}

void RcResponder::Stop() {
  message_ = Message::kNone;
  msn_ = 0;
  sequence_nak_sent_ = waiting_after_rnr_ = communication_established_ = false;
  read_head_ = read_tail_ = 0;
  ack_pending_ = fatal_ = false;
  nak_ = 0;
}

void RcResponder::OnRequest(const wire::RocePacket& packet, PollContext& context) {
  if (fatal_) {  // the NAK that ends this queue pair waits for room in the egress
    context.counters.Count(Drop::kQpState);
    return;
  }
  if (Planted(Fault::kPsnOffByOne) && packet.bth.psn == expected_psn_ + 1) expected_psn_ += 1;
  const int32_t ahead = Distance(expected_psn_, packet.bth.psn);
  if (ahead != 0) {
    if (ahead > 0) {
      OnOutOfSequence(packet.bth.psn, context);
    } else {
      OnDuplicate(packet, context);
    }
    return;
  }
  sequence_nak_sent_ = waiting_after_rnr_ = false;
  nak_ = 0;  // a sequence NAK not sent yet: the packet it would ask for is here
  if (qp_->state() == IBV_QPS_RTR && !communication_established_) {
    communication_established_ = true;
    qp_->RaiseEvent(IBV_EVENT_COMM_EST);
  }
  if (!SequenceIsLegal(packet) || !LengthIsLegal(packet)) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  switch (packet.info->operation) {
    case wire::Operation::kSend:
      OnSend(packet, context);
      break;
    case wire::Operation::kWrite:
      OnWrite(packet, context);
      break;
    case wire::Operation::kReadRequest:
      OnRead(packet, context);
      break;
    default:
      Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
  }
}

void RcResponder::OnOutOfSequence(Psn psn, PollContext& context) {
  if (waiting_after_rnr_) {
    context.counters.Count(Drop::kAfterRnr);
    return;
  }
  ++context.counters.out_of_seq_request;
  context.counters.Count(Drop::kOutOfSequence);
  // A PSN at or before one that came since the NAK: the peer went back, and the first packet of
  // what it sent again is lost too. A peer that only goes back when it is told would wait for its
  // time-out.
  const bool again = sequence_nak_sent_ && nak_ == 0 && !Before(newest_psn_, psn);
  if (!sequence_nak_sent_ || again || Before(newest_psn_, psn)) newest_psn_ = psn;
  if (sequence_nak_sent_ && !again) return;
  sequence_nak_sent_ = true;
  ++context.counters.sent_seq_nak;
  nak_ = wire::kNakPsnSequence;
  nak_psn_ = expected_psn_;
  qp_->Activate();
}

void RcResponder::OnDuplicate(const wire::RocePacket& packet, PollContext& context) {
  ++context.counters.duplicate_request;
  const Psn psn = packet.bth.psn;
  if (packet.info->operation != wire::Operation::kReadRequest) {
    // Executed already, whatever it was: acknowledge as far as we are.
    ack_pending_ = true;
    qp_->Activate();
    return;
  }
  const wire::Reth reth = packet.reth();
  const uint32_t mtu = qp_->PathMtuBytes();
  for (uint32_t i = read_head_; i != read_tail_; ++i) {
    Read& known = read(i);
    const int32_t index = Distance(known.first_psn, psn);
    if (index < 0 || static_cast<uint32_t>(index) >= known.packets) continue;
    const uint64_t offset = static_cast<uint64_t>(index) * mtu;
    if (reth.rkey != known.reth.rkey || reth.address != known.reth.address + offset ||
        reth.length > known.reth.length - offset) {
      break;
    }
    known.answered |= !known.active();
    known.repeated = true;
    known.begin = known.next = static_cast<uint32_t>(index);
    known.end = known.begin + PacketsOf(reth.length, mtu);
    qp_->Activate();
    return;
  }
  context.counters.Count(Drop::kDuplicateDropped);
}

bool RcResponder::SequenceIsLegal(const wire::RocePacket& packet) const {
  const bool continues = (packet.info->position & (wire::kMiddle | wire::kLast)) != 0;
  switch (message_) {
    case Message::kNone:
      return !continues;
    case Message::kSend:
      return continues && packet.info->operation == wire::Operation::kSend;
    case Message::kWrite:
      return continues && packet.info->operation == wire::Operation::kWrite;
  }
  return false;
}

bool RcResponder::LengthIsLegal(const wire::RocePacket& packet) const {
  const uint32_t mtu = qp_->PathMtuBytes();
  switch (packet.info->position) {
    case wire::kFirst:
    case wire::kMiddle:
      return packet.payload_length == mtu;
    case wire::kLast:
      return packet.payload_length >= 1 && packet.payload_length <= mtu;
    default:
      return packet.payload_length <= mtu;
  }
}

void RcResponder::OnSend(const wire::RocePacket& packet, PollContext& context) {
  const bool first = (packet.info->position & (wire::kFirst | wire::kOnly)) != 0;
  const bool last = (packet.info->position & (wire::kLast | wire::kOnly)) != 0;
  if (qp_->rq_empty()) {
    if (Planted(Fault::kRnrLost)) {
      Executed(packet, last);
    } else {
      NotReady(context);
    }
    return;
  }
  if (first) message_bytes_ = 0;
  ibv_wc wc{};
  wc.opcode = IBV_WC_RECV;
  wc.src_qp = qp_->attr.dest_qp_num;
  if (packet.payload_length > qp_->rq_front().length - message_bytes_) {
    wc.status = IBV_WC_LOC_LEN_ERR;
    qp_->CompleteRecv(wc);
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_FATAL);
    return;
  }
  if (!Scatter(*qp_->init().pd, qp_->rq_front_sge(), qp_->rq_front().num_sge, message_bytes_,
               packet.payload(), packet.payload_length)) {
    wc.status = IBV_WC_LOC_PROT_ERR;
    qp_->CompleteRecv(wc);
    Fatal(wire::kNakRemoteOperational, expected_psn_, IBV_EVENT_QP_FATAL);
    return;
  }
  message_bytes_ += packet.payload_length;
  message_ = Message::kSend;
  if (last) {
    wc.byte_len = message_bytes_;
    if ((packet.info->headers & wire::kHasImmediate) != 0) {
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = packet.immediate_be();
    }
    ++context.counters.rdma_recvs;
    qp_->CompleteRecv(wc);
  }
  Executed(packet, last);
}

bool RcResponder::CheckRemote(const wire::Reth& reth, uint64_t offset, uint32_t bytes, int needed,
                              uint8_t** at) const {
  const memory::ProtectionDomain& pd = *qp_->init().pd;
  return (qp_->attr.qp_access_flags & needed) != 0 &&
         pd.regions->Check(pd, reth.rkey, reth.address + offset, bytes, needed, at) ==
             memory::AccessResult::kOk;
}

void RcResponder::OnWrite(const wire::RocePacket& packet, PollContext& context) {
  const bool first = (packet.info->position & (wire::kFirst | wire::kOnly)) != 0;
  const bool last = (packet.info->position & (wire::kLast | wire::kOnly)) != 0;
  const bool immediate = (packet.info->headers & wire::kHasImmediate) != 0;
  const wire::Reth reth = first ? packet.reth() : write_;
  const uint32_t offset = first ? 0 : message_bytes_;
  const uint32_t left = reth.length - offset;
  if (reth.length > verbs::kMaxMessage ||
      (last ? packet.payload_length != left : packet.payload_length >= left)) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  if (immediate && qp_->rq_empty()) {
    NotReady(context);
    return;
  }
  // The whole message is checked before its first byte is placed, and every packet again: the key
  // may have been withdrawn in between.
  uint8_t* at;
  if ((first && !CheckRemote(reth, 0, reth.length, IBV_ACCESS_REMOTE_WRITE, &at)) ||
      !CheckRemote(reth, offset, packet.payload_length, IBV_ACCESS_REMOTE_WRITE, &at)) {
    Fatal(wire::kNakRemoteAccess, expected_psn_, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  if (packet.payload_length > 0) std::copy_n(packet.payload(), packet.payload_length, at);
  write_ = reth;
  message_bytes_ = offset + packet.payload_length;
  message_ = Message::kWrite;
  if (immediate) {
    ibv_wc wc{};
    wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    wc.byte_len = reth.length;
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = packet.immediate_be();
    wc.src_qp = qp_->attr.dest_qp_num;
    qp_->CompleteRecv(wc);
  }
  Executed(packet, last);
}

void RcResponder::OnRead(const wire::RocePacket& packet, PollContext&) {
  const wire::Reth reth = packet.reth();
  if (reth.length > verbs::kMaxMessage ||
      PacketsOf(reth.length, qp_->PathMtuBytes()) >= Psn::kWindow) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  uint8_t* at;
  if (!CheckRemote(reth, 0, reth.length, IBV_ACCESS_REMOTE_READ, &at)) {
    Fatal(wire::kNakRemoteAccess, expected_psn_, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  // A peer that sends a new READ has all of the oldest: a repetition under way answers a duplicate
  // that came late.
  const bool full = read_tail_ - read_head_ == read_capacity_;
  if (read_capacity_ == 0 || (full && read(read_head_).active() && !read(read_head_).answered)) {
    // More at once than the responder resources that were agreed.
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  if (full) ++read_head_;
  Read& entry = read(read_tail_++);
  entry = Read{.first_psn = expected_psn_,
               .packets = PacketsOf(reth.length, qp_->PathMtuBytes()),
               .reth = reth};
  entry.end = entry.packets;
  expected_psn_ += entry.packets;
  msn_ = (msn_ + 1) & 0xFFFFFF;
  ack_pending_ = false;  // the response acknowledges what came before
  qp_->Activate();
}

void RcResponder::Executed(const wire::RocePacket& packet, bool last) {
  expected_psn_ += 1;
  if (last) {
    message_ = Message::kNone;
    msn_ = (msn_ + 1) & 0xFFFFFF;
  }
  if (packet.bth.ack_request) {
    ack_pending_ = true;
    qp_->Activate();
  }
}

void RcResponder::NotReady(PollContext& context) {
  ++context.counters.send_rnr_err;
  waiting_after_rnr_ = true;
  nak_ = wire::kRnrNak | (qp_->attr.min_rnr_timer & 0x1F);
  nak_psn_ = expected_psn_;
  qp_->Activate();
}

void RcResponder::Fatal(uint8_t syndrome, Psn psn, ibv_event_type event) {
  nak_ = syndrome;
  nak_psn_ = psn;
  fatal_ = true;
  fatal_event_ = event;
  qp_->Activate();
}

RcResponder::Read* RcResponder::NextActiveRead() {
  for (uint32_t i = read_head_; i != read_tail_; ++i) {
    if (read(i).active()) return &read(i);
  }
  return nullptr;
}

bool RcResponder::Transmit(PollContext& context, int* budget) {
  while (Read* read = NextActiveRead()) {
    if (*budget == 0 || context.egress.room() == 0) return true;
    if (!SendReadResponse(*read, context)) return true;
    --*budget;
  }
  if (nak_ == 0 && !ack_pending_) return false;
  if (*budget == 0 || context.egress.room() == 0) return true;
  const bool sent = nak_ != 0 ? SendAeth(nak_, nak_psn_, context)
                              : SendAeth(wire::kAckNoCredits, expected_psn_ - 1, context);
  if (!sent) return true;
  --*budget;
  nak_ = 0;
  ack_pending_ = false;
  if (fatal_) {
    qp_->RaiseEvent(fatal_event_);
    qp_->EnterError();
    Stop();
  }
  return false;
}

// False when there was no mbuf. A region that has gone meanwhile ends the connection.
bool RcResponder::SendReadResponse(Read& read, PollContext& context) {
  const uint32_t mtu = qp_->PathMtuBytes();
  const uint64_t offset = static_cast<uint64_t>(read.next) * mtu;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(mtu, read.reth.length - offset));
  const Psn psn = read.first_psn + read.next;
  uint8_t* at = nullptr;
  if (!CheckRemote(read.reth, offset, bytes, IBV_ACCESS_REMOTE_READ, &at)) {
    if (read.repeated) {
      // A late copy of a request that was answered long ago: its region may rightly be gone.
      read.next = read.end;
      context.counters.Count(Drop::kDuplicateDropped);
      return true;
    }
    for (uint32_t i = read_head_; i != read_tail_; ++i) {
      RcResponder::read(i).next = RcResponder::read(i).end;
    }
    Fatal(wire::kNakRemoteAccess, psn, IBV_EVENT_QP_ACCESS_ERR);
    return true;
  }
  const bool first = read.next == read.begin;
  const bool last = read.next + 1 == read.end;
  const Opcode opcode = first && last ? Opcode::kRcReadResponseOnly
                        : first       ? Opcode::kRcReadResponseFirst
                        : last        ? Opcode::kRcReadResponseLast
                                      : Opcode::kRcReadResponseMiddle;
  const bool aeth = first || last;
  if (!builder_.Begin({.opcode = opcode,
                       .psn = psn,
                       .ext_bytes = static_cast<uint8_t>(aeth ? wire::kAethBytes : 0),
                       .payload_bytes = bytes},
                      context)) {
    return false;
  }
  if (aeth) {
    wire::EmitAeth({.syndrome = wire::kAckNoCredits, .msn = msn_}, builder_.ext());
  }
  builder_.EndHeaders();
  if (bytes > 0) builder_.Copy(at, bytes);
  builder_.Finish(context);
  ++read.next;
  return true;
}

bool RcResponder::SendAeth(uint8_t syndrome, Psn psn, PollContext& context) {
  if (!builder_.Begin({.opcode = Opcode::kRcAcknowledge, .psn = psn, .ext_bytes = wire::kAethBytes},
                      context)) {
    return false;
  }
  wire::EmitAeth({.syndrome = syndrome, .msn = msn_}, builder_.ext());
  builder_.EndHeaders();
  builder_.Finish(context);
  return true;
}

}  // namespace pollux::transport
