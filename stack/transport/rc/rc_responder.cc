#include "stack/transport/rc/rc_responder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "stack/base/planted_fault.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

using wire::Opcode;

uint32_t PacketsOf(uint32_t length, uint32_t mtu) {
  return length == 0 ? 1 : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

constexpr uint32_t kAtomicBytes = 8;
constexpr uint32_t kMsnMask = 0xFFFFFF;

// On memory in host order, and atomic for every processor that shares it (IBV_ATOMIC_GLOB). Returns
// what was there.
uint64_t ExecuteAtomic(Opcode opcode, const wire::AtomicEth& eth, uint64_t* at) {
  if (opcode == Opcode::kRcFetchAdd) {
    return __atomic_fetch_add(at, eth.swap_or_add, __ATOMIC_ACQ_REL);
  }
  uint64_t original = eth.compare;
  __atomic_compare_exchange_n(at, &original, eth.swap_or_add, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  return original;
}

}  // namespace

void RcResponder::Start() {
  Stop();
  builder_.Reset(&qp_->path, qp_->qpn(), Qpn{qp_->attr.dest_qp_num}, {.data_ecn = qp_->data_ecn});
  expected_psn_ = Psn(qp_->attr.rq_psn);
  resources_.Start(qp_->attr.max_dest_rd_atomic);
}

void RcResponder::OnModified() {
  builder_.Reset(&qp_->path, qp_->qpn(), Qpn{qp_->attr.dest_qp_num}, {.data_ecn = qp_->data_ecn});
  resources_.Resize(qp_->attr.max_dest_rd_atomic);
}

void RcResponder::Stop() {
  message_.Reset();
  msn_ = qp_->init().first_msn & kMsnMask;
  conditions_ = {};
  responses_last_ = false;
  resources_.Clear();
  Acknowledged();
}

void RcResponder::OnRequest(const wire::RocePacket& packet, PollContext& context) {
  if (conditions_.fatal) {  // the NAK that ends this queue pair waits for room in the egress
    diagnostics_->Count(Drop::kQpState, context.counters);
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
  conditions_.sequence_nak_sent = conditions_.waiting_after_rnr = false;
  conditions_.nak = 0;  // a sequence NAK not sent yet: the packet it would ask for is here
  // In RTS too: the passive side is there before its peer has its answer.
  if (conditions_.no_request_yet) {
    conditions_.no_request_yet = false;
    qp_->RaiseEvent(IBV_EVENT_COMM_EST);
  }
  if (!message_.SequenceIsLegal(packet) || !message_.LengthIsLegal(packet)) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  switch (packet.info->operation) {
    case wire::Operation::kSend:
    case wire::Operation::kWrite:
      OnMessage(packet, context);
      break;
    case wire::Operation::kReadRequest:
      OnRead(packet, context);
      break;
    case wire::Operation::kAtomic:
      OnAtomic(packet, context);
      break;
    case wire::Operation::kAtomicWrite:
      OnAtomicWrite(packet, context);
      break;
    case wire::Operation::kFlush:
      OnFlush(packet, context);
      break;
    default:
      Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
  }
}

bool RcResponder::TryExecute(const wire::ExpectedHeaders::SinglePacketMessage& message,
                             const verbs::PostedRecv* receive, PollContext& context) {
  const bool is_handled = receive != nullptr && qp_->has_message_handler();
  if (is_handled) {
    if (!message_.MayAcceptSend(message.ext_bytes)) [[unlikely]]
      return false;
    diagnostics_->Count(&Counters::rdma_recvs, context.counters);
    diagnostics_->Received(Opcode::kRcSendOnly, message.psn,
                           static_cast<uint32_t>(message.ext_bytes));
  } else if (receive != nullptr) {
    if (!message_.TryAcceptSend(*receive, message.ext, message.ext_bytes, message.solicited,
                                context)) [[unlikely]] {
      return false;
    }
    diagnostics_->Received(Opcode::kRcSendOnly, message.psn,
                           static_cast<uint32_t>(message.ext_bytes));
  } else {
    if (!message_.TryAcceptWrite(message.ext, message.ext_bytes)) [[unlikely]]
      return false;
    diagnostics_->Received(Opcode::kRcWriteOnly, message.psn,
                           static_cast<uint32_t>(message.ext_bytes - wire::kRethBytes));
  }
  Executed(true, message.ack_request, context);
  // Last, since the handler may destroy the queue pair.
  if (is_handled) qp_->HandleMessage(*receive, message.ext, message.ext_bytes);
  return true;
}

void RcResponder::OnOutOfSequence(Psn psn, PollContext& context) {
  if (conditions_.waiting_after_rnr) {
    diagnostics_->Count(Drop::kAfterRnr, context.counters);
    return;
  }
  diagnostics_->Count(&Counters::out_of_seq_request, context.counters);
  diagnostics_->Count(Drop::kOutOfSequence, context.counters);
  // A PSN at or before the one that the last NAK answered: the peer went back, and the first packet
  // of what it sent again is lost too. A peer that only goes back when it is told would wait for
  // its time-out. What is merely late, or comes twice, lies beyond, and must cost it no retry.
  const bool again =
      conditions_.sequence_nak_sent && conditions_.nak == 0 && !Before(nak_cause_psn_, psn);
  if (conditions_.sequence_nak_sent && !again) return;
  nak_cause_psn_ = psn;
  conditions_.sequence_nak_sent = true;
  // Linux's rxe goes back for a further NAK only if something was acknowledged since the one
  // before, else when its time-out ends. What has come since is acknowledged by itself, as READs
  // and atomics are by their responses.
  if (!conditions_.no_request_yet && nak_psn_ != expected_psn_ && !responses_last_) {
    ack_pending_ = true;
  }
  diagnostics_->Count(&Counters::sent_seq_nak, context.counters);
  conditions_.nak = wire::kNakPsnSequence;
  nak_psn_ = expected_psn_;
  qp_->ActivateAck();
}

void RcResponder::OnDuplicate(const wire::RocePacket& packet, PollContext& context) {
  diagnostics_->Count(&Counters::duplicate_request, context.counters);
  const Psn psn = packet.bth.psn;
  const wire::Operation operation = packet.info->operation;
  if (operation == wire::Operation::kSend || operation == wire::Operation::kWrite) {
    // Executed already, whatever it was: acknowledge as far as may be.
    AskForAck(context);
    return;
  }
  ResponderResource* known = resources_.Find(psn);
  bool repeats = known != nullptr && known->operation == operation;
  if (repeats) {
    const auto begin = static_cast<uint32_t>(Distance(known->first_psn, psn));
    uint32_t packets = 1;
    uint16_t cut = 0;
    if (operation == wire::Operation::kReadRequest) {
      const wire::Reth reth = packet.reth();
      const uint32_t mtu = qp_->PathMtuBytes();
      const uint64_t offset = static_cast<uint64_t>(begin) * mtu;
      packets = PacketsOf(reth.length, mtu);
      repeats = reth.rkey == known->reth.rkey && reth.address == known->reth.address + offset &&
                reth.length <= known->reth.length - offset;
      const uint64_t whole =
          std::min<uint64_t>(uint64_t{packets} * mtu, known->reth.length - offset);
      cut = static_cast<uint16_t>(whole - reth.length);
    }
    repeats = repeats && resources_.Repeat(*known, begin, begin + packets, cut);
  }
  if (!repeats) {
    diagnostics_->Count(Drop::kDuplicateDropped, context.counters);
    return;
  }
  qp_->Activate();
}

[[gnu::always_inline]] inline void RcResponder::OnMessage(const wire::RocePacket& packet,
                                                          PollContext& context) {
  using Result = InboundMessage::Result;
  switch (message_.Accept(packet, context)) {
    case Result::kPlaced:
      Executed(false, packet.bth.ack_request, context);
      break;
    case Result::kComplete:
      Executed(true, packet.bth.ack_request, context);
      break;
    case Result::kNotReady:
      if (Planted(Fault::kRnrLost)) {
        Executed((packet.info->position & (wire::kLast | wire::kOnly)) != 0, packet.bth.ack_request,
                 context);
      } else {
        NotReady(context);
      }
      break;
    case Result::kInvalidRequest:
      Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
      break;
    case Result::kAccess:
      Fatal(wire::kNakRemoteAccess, expected_psn_, IBV_EVENT_QP_ACCESS_ERR);
      break;
    case Result::kTooLong:
      qp_->FailRecv(IBV_WC_LOC_LEN_ERR);
      Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_FATAL);
      break;
    case Result::kReceiveFault:
      Fatal(wire::kNakRemoteOperational, expected_psn_, IBV_EVENT_QP_FATAL);
      break;
    case Result::kInvalidateFault:
      // The specification has no NAK for it: the message has arrived, and what its key was good for
      // is this side's own affair. As rxe it is acknowledged, asked for or not, since nobody
      // answers after that.
      Executed(true, packet.bth.ack_request, context);
      if (!ack_pending_) AskForAck(context);
      Fatal(0, expected_psn_, IBV_EVENT_QP_FATAL);
      break;
  }
}

memory::AccessResult RcResponder::CheckRemote(uint32_t rkey, uint64_t address, uint32_t bytes,
                                              int needed, uint8_t** at) const {
  const memory::ProtectionDomain& pd = *qp_->init().pd;
  return pd.regions->CheckRemote(pd, qp_->qpn().value, rkey, address, bytes, needed, at);
}

ResponderResource* RcResponder::NewResource(uint32_t packets, PollContext& context) {
  ResponderResource* entry = resources_.Add(expected_psn_, packets);
  if (entry == nullptr) {
    // More at once than the responder resources that were agreed.
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return nullptr;
  }
  if (!std::exchange(responses_last_, true)) {
    message_end_ = expected_psn_;
    message_msn_ = msn_;
  }
  expected_psn_ += packets;
  CountMessage();
  // The response acknowledges what came before.
  if (ack_pending_) diagnostics_->Count(&Counters::ack_deferred, context.counters);
  Acknowledged();
  qp_->Activate();
  return entry;
}

void RcResponder::OnRead(const wire::RocePacket& packet, PollContext& context) {
  const wire::Reth reth = packet.reth();
  const uint32_t packets = PacketsOf(reth.length, qp_->PathMtuBytes());
  if (reth.length > verbs::kMaxMessage || packets >= Psn::kWindow ||
      (qp_->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) == 0) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  uint8_t* at;
  if (CheckRemote(reth.rkey, reth.address, reth.length, IBV_ACCESS_REMOTE_READ, &at) !=
      memory::AccessResult::kOk) {
    Fatal(wire::kNakRemoteAccess, expected_psn_, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  if (ResponderResource* entry = NewResource(packets, context); entry != nullptr)
    entry->reth = reth;
}

uint64_t* RcResponder::RemoteWord(uint32_t rkey, uint64_t address, int access) {
  uint8_t* at;
  if (address % kAtomicBytes != 0 || (qp_->attr.qp_access_flags & access) == 0) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return nullptr;
  }
  if (CheckRemote(rkey, address, kAtomicBytes, access, &at) != memory::AccessResult::kOk) {
    Fatal(wire::kNakRemoteAccess, expected_psn_, IBV_EVENT_QP_ACCESS_ERR);
    return nullptr;
  }
  // An aligned name for memory that is not: the owner of the region chose it so.
  if (reinterpret_cast<uintptr_t>(at) % kAtomicBytes != 0) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return nullptr;
  }
  return reinterpret_cast<uint64_t*>(at);
}

void RcResponder::OnAtomic(const wire::RocePacket& packet, PollContext& context) {
  const wire::AtomicEth eth = packet.atomic_eth();
  uint64_t* word = RemoteWord(eth.rkey, eth.address, IBV_ACCESS_REMOTE_ATOMIC);
  ResponderResource* entry = word != nullptr ? NewResource(1, context) : nullptr;
  if (entry == nullptr) return;
  entry->operation = wire::Operation::kAtomic;
  entry->original = ExecuteAtomic(packet.bth.opcode, eth, word);
}

void RcResponder::OnAtomicWrite(const wire::RocePacket& packet, PollContext& context) {
  const wire::Reth reth = packet.reth();
  if (reth.length != kAtomicBytes || packet.payload_length != kAtomicBytes) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  uint64_t* word = RemoteWord(reth.rkey, reth.address, IBV_ACCESS_REMOTE_WRITE);
  ResponderResource* entry = word != nullptr ? NewResource(1, context) : nullptr;
  if (entry == nullptr) return;
  entry->operation = wire::Operation::kAtomicWrite;
  uint64_t value;  // as in the peer's memory
  std::memcpy(&value, packet.payload(), sizeof value);
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

void RcResponder::OnFlush(const wire::RocePacket& packet, PollContext& context) {
  const wire::Feth feth = packet.feth();
  wire::Reth reth = packet.reth();
  constexpr int kAccessShift = 8;
  static_assert(memory::kAccessFlushGlobal == wire::kFlushGlobal << kAccessShift &&
                memory::kAccessFlushPersistent == wire::kFlushPersistent << kAccessShift);
  const int access = feth.placement << kAccessShift;
  if (feth.placement == 0 || feth.placement > (wire::kFlushGlobal | wire::kFlushPersistent) ||
      feth.selectivity > wire::kFlushRegion ||
      (feth.selectivity == wire::kFlushRange && reth.length > verbs::kMaxMessage) ||
      (static_cast<int>(qp_->attr.qp_access_flags) & access) != access) {
    Fatal(wire::kNakInvalidRequest, expected_psn_, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  if (feth.selectivity == wire::kFlushRegion) {
    const memory::MemoryRegion* region = qp_->init().pd->regions->Find(reth.rkey);
    if (region != nullptr) reth.address = region->iova;
    reth.length = 0;
  }
  // CheckRemote() checks neither key nor rights of an empty range.
  reth.length = std::max(reth.length, 1u);
  uint8_t* at;
  // No memory is persistent.
  if ((access & memory::kAccessFlushPersistent) != 0 ||
      CheckRemote(reth.rkey, reth.address, reth.length, access, &at) != memory::AccessResult::kOk) {
    Fatal(wire::kNakRemoteAccess, expected_psn_, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  // Linux's rxe does not count FLUSHes among the READs and atomics that it may have outstanding.
  // One that comes too early is asked for again. The others may replace a READ or an atomic whose
  // response is lost: its repetition is then dropped.
  if (resources_.Full()) {
    OnOutOfSequence(expected_psn_, context);
    return;
  }
  ResponderResource* entry = NewResource(1, context);
  if (entry == nullptr) return;
  entry->operation = wire::Operation::kFlush;
  // Earlier RDMA WRITEs are visible already: this core placed them, and x86-64 keeps the order of
  // stores.
}

[[gnu::always_inline]] inline void RcResponder::CountMessage() {
  msn_ = (msn_ + 1) & kMsnMask;
  if (Planted(Fault::kMsnNotWrapped) && msn_ == 0) msn_ = 1;
}

[[gnu::always_inline]] inline void RcResponder::Executed(bool last, bool ack_request,
                                                         PollContext& context) {
  expected_psn_ += 1;
  responses_last_ = false;
  if (last) CountMessage();
  if (ack_request) {
    if (ack_pending_) {
      diagnostics_->Count(&Counters::ack_deferred, context.counters);
    } else {
      AskForAck(context);
    }
  } else if (last) {
    OnUnasked(context);
  }
}

[[gnu::always_inline]] inline void RcResponder::OnUnasked(PollContext& context) {
  if (ack_pending_) return;
  if (++unasked_ == kUnaskedMessages) {
    AskForAck(context);
  } else if (unasked_until_ns_ == kNever) {
    unasked_until_ns_ = context.now_ns + kUnaskedNs;
  }
}

void RcResponder::OnDeadline(PollContext& context) {
  if (unasked_until_ns_ > context.now_ns) return;
  unasked_until_ns_ = kNever;
  if (!ack_pending_) AskForAck(context);
}

void RcResponder::Acknowledged() {
  ack_pending_ = false;
  unasked_ = 0;
  unasked_until_ns_ = kNever;
}

void RcResponder::AskForAck(PollContext& context) {
  if (std::exchange(ack_pending_, true))
    diagnostics_->Count(&Counters::ack_deferred, context.counters);
  qp_->ActivateAck();
}

void RcResponder::NotReady(PollContext& context) {
  diagnostics_->Count(&Counters::send_rnr_err, context.counters);
  conditions_.waiting_after_rnr = true;
  conditions_.nak = wire::kRnrNak | (qp_->attr.min_rnr_timer & 0x1F);
  nak_psn_ = expected_psn_;
  qp_->ActivateAck();
}

void RcResponder::Fatal(uint8_t syndrome, Psn psn, ibv_event_type event) {
  conditions_.nak = syndrome;
  nak_psn_ = psn;
  conditions_.fatal = true;
  fatal_event_ = event;
  qp_->Activate();
}

bool RcResponder::Transmit(PollContext& context, int* budget) {
  while (true) {
    const auto [resource, response] = resources_.Next();
    if (resource == nullptr) break;
    if (*budget == 0 || context.egress.room() == 0 || context.egress.TurnIsOver()) return true;
    if (!(resource->operation == wire::Operation::kAtomic
              ? SendAtomicAck(*resource, *response, context)
              : SendReadResponse(*resource, *response, context))) {
      return true;
    }
    --*budget;
  }
  // It costs no budget: that a queue pair may send no data just now holds no answer back.
  if (!SendOwed(context)) return true;
  if (conditions_.fatal) {
    diagnostics_->Event(fatal_event_);
    qp_->RaiseEvent(fatal_event_);
    qp_->EnterError();
    Stop();
  }
  return false;
}

bool RcResponder::Acknowledge(PollContext& context) {
  return conditions_.fatal || resources_.Next().resource != nullptr || SendOwed(context);
}

// The acknowledgement and the NAK, if they are owed; but for a sequence NAK, a NAK says it all.
// False when there was no room or no buffer.
bool RcResponder::SendOwed(PollContext& context) {
  if (ack_pending_ && (conditions_.nak == 0 || conditions_.nak == wire::kNakPsnSequence)) {
    if (context.egress.room() == 0) return false;
    // What stands before a READ or an atomic: its own PSN only its response may have.
    const Psn psn = responses_last_ ? message_end_ - 1 : expected_psn_ - 1;
    const uint32_t msn = responses_last_ ? message_msn_ : msn_;
    if (!SendAeth(wire::kAckNoCredits, psn, msn, context)) return false;
    Acknowledged();
  }
  if (conditions_.nak == 0) return true;
  if (context.egress.room() == 0 || !SendAeth(conditions_.nak, nak_psn_, msn_, context))
    return false;
  conditions_.nak = 0;
  Acknowledged();
  return true;
}

void RcResponder::AcknowledgeAtLast(PollContext& context) {
  for (int copy = 0; copy < kLastAcks; ++copy) {
    if (conditions_.no_request_yet) return;  // nothing has come, or a fatal NAK was sent
    if (!responses_last_) ack_pending_ = true;
    int no_data = 0;
    if (Transmit(context, &no_data)) return;
  }
}

// False when there was no mbuf. A region that has gone meanwhile ends the connection.
bool RcResponder::SendReadResponse(ResponderResource& read, ResponseRange& response,
                                   PollContext& context) {
  const uint32_t mtu = qp_->PathMtuBytes();
  const uint64_t offset = static_cast<uint64_t>(response.next) * mtu;
  const bool last = response.next + 1 == response.end;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(mtu, read.reth.length - offset)) -
                     (last ? response.cut : 0);
  const Psn psn = read.first_psn + response.next;
  uint8_t* at = nullptr;
  if (CheckRemote(read.reth.rkey, read.reth.address + offset, bytes, IBV_ACCESS_REMOTE_READ, &at) !=
      memory::AccessResult::kOk) {
    if (read.repeated) {
      // A late copy of a request that was answered long ago: its region may rightly be gone.
      response.next = response.end;
      diagnostics_->Count(Drop::kDuplicateDropped, context.counters);
      return true;
    }
    resources_.Cancel();
    Fatal(wire::kNakRemoteAccess, psn, IBV_EVENT_QP_ACCESS_ERR);
    return true;
  }
  const bool first = !response.begun;
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
  if (bytes > 0) builder_.Copy(at, bytes);
  builder_.Finish(context);
  response.begun = true;
  Sent(read, response.next++, context);
  return true;
}

void RcResponder::Sent(ResponderResource& resource, uint32_t packet, PollContext& context) {
  if (packet < resource.sent) {
    diagnostics_->Count(&Counters::retransmitted_responses, context.counters);
  } else {
    resource.sent = packet + 1;
  }
}

bool RcResponder::SendAtomicAck(ResponderResource& atomic, ResponseRange& response,
                                PollContext& context) {
  if (!builder_.Begin({.opcode = Opcode::kRcAtomicAcknowledge,
                       .psn = atomic.first_psn,
                       .ext_bytes = wire::kAethBytes + wire::kAtomicAckEthBytes},
                      context)) {
    return false;
  }
  wire::EmitAeth({.syndrome = wire::kAckNoCredits, .msn = msn_}, builder_.ext());
  wire::EmitAtomicAckEth(atomic.original, builder_.ext() + wire::kAethBytes);
  builder_.Finish(context);
  Sent(atomic, response.next++, context);
  return true;
}

bool RcResponder::SendAeth(uint8_t syndrome, Psn psn, uint32_t msn, PollContext& context) {
  if (!builder_.Begin({.opcode = Opcode::kRcAcknowledge, .psn = psn, .ext_bytes = wire::kAethBytes},
                      context)) {
    return false;
  }
  wire::EmitAeth({.syndrome = syndrome, .msn = msn}, builder_.ext());
  builder_.Finish(context);
  return true;
}

}  // namespace pollux::transport
