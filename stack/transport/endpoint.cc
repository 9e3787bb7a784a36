#include "stack/transport/endpoint.h"

#include <algorithm>

#include "stack/base/address.h"
#include "stack/base/planted_fault.h"
#include "stack/base/prefetch.h"
#include "stack/base/probe.h"
#include "stack/transport/message/packet_builder.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"

namespace pollux::transport {
namespace {

wire::Transport TransportOf(ibv_qp_type type) {
  return type == IBV_QPT_RC   ? wire::Transport::kRc
         : type == IBV_QPT_UC ? wire::Transport::kUc
                              : wire::Transport::kUd;
}

// Beside the payload, to reckon how many frames a rate allows.
constexpr uint32_t kFrameOverhead = PacketBuilder::kMaxHeaderBytes + wire::kIcrcBytes;

}  // namespace

Endpoint::Endpoint(Qpn qpn, verbs::QueuePairInitAttr init, verbs::ActiveList* active,
                   verbs::EventList* events, const DcqcnParameters* dcqcn)
    : qp(qpn, std::move(init), active, events),
      transport_(TransportOf(qp.type())),
      diagnostics_(qpn),
      rc_requester_(&qp, &diagnostics_),
      rc_responder_(&qp, &diagnostics_),
      uc_(&qp, &diagnostics_),
      ud_(&qp, &diagnostics_) {
  qp.transport = this;
  if (dcqcn == nullptr || qpn == kGsiQpn) return;
  congestion_ = std::make_unique<Congestion>(dcqcn, &diagnostics_);
  qp.data_ecn = wire::kEct0;
}

Endpoint* Endpoint::Of(verbs::QueuePair* queue_pair) {
  return static_cast<Endpoint*>(queue_pair->transport);
}

void Endpoint::Prefetch(bool sends) const {
  PrefetchLines(&qp.attr, &expected_ + 1);
  diagnostics_.Prefetch();
  if (sends) {
    rc_requester_.Prefetch();
    rc_responder_.PrefetchOwed();
  } else {
    __builtin_prefetch(&rc_requester_);  // its deadlines
    rc_responder_.Prefetch();
  }
}

absl::Status Endpoint::Modify(const ibv_qp_attr& change, int mask, PollContext& context) {
  diagnostics_.Begin(context.now_ns);
  // Makes the next packet's addresses be checked against the new attributes.
  expected_address_version_ = 0;
  const ibv_qp_state before = qp.state();
  if (absl::Status status = qp.Modify(change, mask); !status.ok()) return status;
  const ibv_qp_state after = qp.state();
  if (after == before) {
    if (after == IBV_QPS_SQD && qp.type() == IBV_QPT_RC) rc_responder_.OnModified();
    return absl::OkStatus();
  }
  // The queue pair may have changed its state by itself since NoteState(): that is recorded first.
  // Neither counts as a failure, since the user has asked for a change.
  if (before != noted_state_) RecordState(before);
  RecordState(after);
  switch (after) {
    case IBV_QPS_RTR:
      if (congestion_ != nullptr) *congestion_ = Congestion(congestion_->parameters, &diagnostics_);
      EnterRtr();
      break;
    case IBV_QPS_RTS:
      EnterRts(before);
      break;
    case IBV_QPS_SQD:
      CheckDrained();
      break;
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
      rc_requester_.Stop();
      rc_responder_.Stop();
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

void Endpoint::EnterRtr() {
  if (qp.type() == IBV_QPT_RC) rc_responder_.Start();
  if (qp.type() == IBV_QPT_UC) uc_.StartReceiving();
}

void Endpoint::EnterRts(ibv_qp_state before) {
  const bool resumes = before == IBV_QPS_SQE || before == IBV_QPS_SQD;  // PSNs go on
  switch (qp.type()) {
    case IBV_QPT_RC:
      resumes ? rc_requester_.Resume() : rc_requester_.Start();
      break;
    case IBV_QPT_UC:
      resumes ? uc_.ResumeSending() : uc_.StartSending();
      break;
    default:
      if (!resumes) ud_.Start();
  }
  // What was posted in SQD.
  if (resumes) qp.Activate();
}

void Endpoint::CheckDrained() {
  const bool begun = qp.type() == IBV_QPT_RC   ? rc_requester_.HasBegun()
                     : qp.type() == IBV_QPT_UC ? uc_.HasBegun()
                                               : false;
  if (qp.attr.sq_draining != 0 && !begun) qp.OnDrained();
}

[[gnu::noinline]] void Endpoint::RecordState(ibv_qp_state state) {
  probe::QpState(qp.qpn(), noted_state_, state);
  noted_state_ = state;
  diagnostics_.State(state);
}

[[gnu::always_inline]] inline void Endpoint::NoteState() {
  const ibv_qp_state state = qp.state();
  if (state == IBV_QPS_SQD) [[unlikely]]
    CheckDrained();
  if (state == noted_state_) [[likely]]
    return;
  RecordState(state);
  failed_ |= state == IBV_QPS_ERR;
}

[[gnu::always_inline]] inline Drop Endpoint::ReasonToDrop(const wire::RocePacket& packet,
                                                          bool expected) const {
  const ibv_qp_state state = qp.state();
  // A send error of UC or UD leaves the receiving side as it is.
  const bool receives = state == IBV_QPS_RTR || qp.sends() || state == IBV_QPS_SQE;
  if (!receives || (packet.info->is_response && !qp.sends())) return Drop::kQpState;
  if (packet.info->transport != transport_ && packet.info->transport != wire::Transport::kCnp) {
    return Drop::kWrongTransport;
  }
  if (!expected) {
    if (!wire::PkeysMatch(packet.bth.pkey, wire::kDefaultPkey)) return Drop::kBadPkey;
    // A datagram may come from every host, but not from a group or broadcast address (RFC 1122
    // section 3.2.1.3): an answer would reach many hosts.
    const bool from_there = qp.type() == IBV_QPT_UD
                                ? IsOneHost(packet.source())
                                : packet.IsBetween(qp.path.destination, qp.path.source);
    if (!from_there) return Drop::kBadAddress;
  }
  // Before a byte is placed or a number believed.
  if (!Planted(Fault::kIcrcUnchecked) && !wire::IcrcIsValid(packet)) return Drop::kBadIcrc;
  return Drop::kCount;
}

void Endpoint::OnPacket(const wire::RocePacket& packet, PollContext& context,
                        uint32_t address_version) {
  diagnostics_.Begin(context.now_ns);
  if (const Drop reason = ReasonToDrop(packet, false); reason != Drop::kCount) {
    diagnostics_.Dropped(packet, reason, context.counters);
    return;
  }
  if (address_version != 0) {
    expected_.Learn(packet);
    expected_address_version_ = address_version;
  }
  Execute(packet, context);
}

// A message of one packet in sequence, with nothing else pending. Returns false, without any
// effect, if the general path has to handle the frame. The compiler is told that this is the usual
// case: otherwise it saves registers for the other branches.
[[gnu::always_inline]] inline bool Endpoint::TrySinglePacketMessage(wire::Opcode opcode,
                                                                    const uint8_t* frame,
                                                                    size_t length,
                                                                    PollContext& context) {
  wire::ExpectedHeaders::SinglePacketMessage message;
  if (transport_ != wire::Transport::kRc || qp.state() != IBV_QPS_RTS) [[unlikely]]
    return false;
  if (!expected_.ParseSinglePacket(frame, length, &message)) [[unlikely]]
    return false;
  if (!rc_responder_.IsNextRequest(message.psn)) [[unlikely]]
    return false;
  const verbs::PostedRecv* receive = nullptr;
  if (opcode == wire::Opcode::kRcSendOnly) {
    receive = qp.RecvForPacket(message.ext_bytes);
    if (receive == nullptr) [[unlikely]]
      return false;
  }
  if (!Planted(Fault::kIcrcUnchecked) &&
      !wire::IcrcIsValid(frame + wire::kEthernetBytes, 4, message.l3_bytes)) [[unlikely]] {
    return false;
  }
  diagnostics_.Begin(context.now_ns);
  if (!rc_responder_.TryExecute(message, receive, context)) [[unlikely]]
    return false;
  NoteState();
  return true;
}

bool Endpoint::TryExpectedFrame(const uint8_t* frame, size_t length, PollContext& context,
                                uint32_t address_version) {
  if (expected_address_version_ != address_version) [[unlikely]]
    return false;
  const wire::Opcode opcode = wire::ExpectedHeaders::OpcodeOf(frame);
  if ((opcode == wire::Opcode::kRcSendOnly || opcode == wire::Opcode::kRcWriteOnly) &&
      TrySinglePacketMessage(opcode, frame, length, context)) [[likely]] {
    return true;
  }
  return TryExpectedGeneral(frame, length, context);
}

// A packet of any kind. Out of line, so that the function above saves no registers for it.
[[gnu::noinline]] bool Endpoint::TryExpectedGeneral(const uint8_t* frame, size_t length,
                                                    PollContext& context) {
  wire::RocePacket packet;
  if (!expected_.Parse(frame, length, &packet)) return false;
  diagnostics_.Begin(context.now_ns);
  if (const Drop reason = ReasonToDrop(packet, true); reason != Drop::kCount) [[unlikely]] {
    diagnostics_.Dropped(packet, reason, context.counters);
    return true;
  }
  Execute(packet, context);
  return true;
}

// A packet that has passed all checks.
[[gnu::always_inline]] inline void Endpoint::Execute(const wire::RocePacket& packet,
                                                     PollContext& context) {
  diagnostics_.Received(packet);
  if (packet.info->transport == wire::Transport::kCnp) [[unlikely]] {
    OnCnp(context);
    return;
  }
  if (packet.ecn == wire::kCe) [[unlikely]]
    OnMarked(packet, context);
  if (qp.type() == IBV_QPT_UC) {
    uc_.OnPacket(packet, context);
  } else if (qp.type() == IBV_QPT_UD) {
    ud_.OnPacket(packet, context);
  } else if (packet.info->is_response) {
    rc_requester_.OnResponse(packet, context);
  } else {
    rc_responder_.OnRequest(packet, context);
  }
  NoteState();
}

void Endpoint::OnCnp(PollContext& context) {
  if (congestion_ == nullptr) {
    diagnostics_.Count(&Counters::rp_cnp_ignored, context.counters);
    return;
  }
  diagnostics_.Count(&Counters::rp_cnp_handled, context.counters);
  congestion_->reaction.OnCnp(context.now_ns);
}

void Endpoint::OnMarked(const wire::RocePacket& packet, PollContext& context) {
  diagnostics_.Count(&Counters::np_ecn_marked_roce_packets, context.counters);
  if (congestion_ == nullptr) return;
  const Qpn remote = qp.type() == IBV_QPT_UD ? packet.deth().source_qpn : Qpn{qp.attr.dest_qp_num};
  congestion_->notification.OnMarked(packet, qp.qpn(), remote, context);
}

bool Endpoint::Acknowledge(PollContext& context) {
  if (qp.state() != IBV_QPS_RTR && !qp.sends()) return true;
  diagnostics_.Begin(context.now_ns);
  return rc_responder_.Acknowledge(context);
}

bool Endpoint::Transmit(PollContext& context, int budget) {
  diagnostics_.Begin(context.now_ns);
  // Most often there are only short messages to send.
  if (qp.state() == IBV_QPS_RTS && qp.type() == IBV_QPT_RC && congestion_ == nullptr &&
      !requests_first_ && !rc_responder_.HasToSend() &&
      rc_requester_.TransmitShort(context, &budget)) [[likely]] {
    NoteState();
    return false;
  }
  return TransmitAny(context, budget);
}

// Out of line, so that the function above saves no registers for it.
[[gnu::noinline]] bool Endpoint::TransmitAny(PollContext& context, int budget) {
  const bool more = congestion_ == nullptr ? Send(context, budget) : SendPaced(context, budget);
  NoteState();
  return more;
}

// As much as the rate allows; the rest waits for the timer. Retransmissions count as well.
bool Endpoint::SendPaced(PollContext& context, int budget) {
  ReactionPoint& reaction = congestion_->reaction;
  const uint32_t frame_bytes = qp.PathMtuBytes() + kFrameOverhead;
  const int allowed = reaction.Allowed(context.now_ns, frame_bytes, budget);
  rc_requester_.SetPacketInterval(reaction.interval_ns(frame_bytes));
  const uint64_t before = context.egress.pushed_bytes();
  const bool more = Send(context, allowed);
  reaction.OnSent(context.egress.pushed_bytes() - before);
  congestion_->wait_until_ns = kNever;
  if (!more || reaction.Allowed(context.now_ns, frame_bytes, 1) > 0) return more;
  congestion_->wait_until_ns = reaction.retry_ns(context.now_ns);
  return false;
}

[[gnu::always_inline]] inline bool Endpoint::Send(PollContext& context, int budget) {
  // A fatal NAK is still to be sent by a responder whose queue pair works otherwise; a queue pair
  // in ERR has nothing to send.
  if (qp.state() != IBV_QPS_RTR && !qp.sends()) return false;
  if (qp.type() == IBV_QPT_UD) return ud_.Transmit(context, &budget);
  if (qp.type() == IBV_QPT_UC) return uc_.Transmit(context, &budget);
  if (requests_first_ && budget > 0 && qp.sends()) [[unlikely]]
    return SendRequestsFirst(context, budget);
  const bool can_send = budget > 0;
  const bool more_answers = rc_responder_.HasToSend() && rc_responder_.Transmit(context, &budget);
  if (!qp.sends()) {
    if (qp.state() == IBV_QPS_ERR) rc_requester_.Stop();
    return more_answers;
  }
  const bool more_requests = rc_requester_.Transmit(context, &budget);
  if (qp.state() == IBV_QPS_ERR) [[unlikely]]
    rc_responder_.Stop();
  if (can_send) requests_first_ = more_answers && more_requests;
  return (more_answers || more_requests) && qp.sends();
}

// The responses of long READs may fill turn after turn, and the requests would never have theirs.
bool Endpoint::SendRequestsFirst(PollContext& context, int budget) {
  requests_first_ = false;
  const bool more_requests = rc_requester_.Transmit(context, &budget);
  if (qp.state() == IBV_QPS_ERR) {
    rc_responder_.Stop();
    return false;
  }
  const bool more_answers = rc_responder_.HasToSend() && rc_responder_.Transmit(context, &budget);
  if (qp.state() == IBV_QPS_ERR) rc_requester_.Stop();
  return (more_answers || more_requests) && qp.sends();
}

void Endpoint::AcknowledgeAtLast(PollContext& context) {
  if (qp.type() != IBV_QPT_RC || (qp.state() != IBV_QPS_RTR && !qp.sends())) return;
  diagnostics_.Begin(context.now_ns);
  rc_responder_.AcknowledgeAtLast(context);
  if (qp.state() == IBV_QPS_ERR) rc_requester_.Stop();
  NoteState();
}

// In any state, of any type, at any rate.
uint64_t Endpoint::SeldomDeadlineNs() const {
  uint64_t deadline = kNever;
  if (qp.type() == IBV_QPT_RC) {
    if (qp.sends()) {
      deadline = std::min(rc_requester_.deadline_ns(), rc_responder_.deadline_ns());
    } else if (qp.state() == IBV_QPS_RTR) {
      deadline = rc_responder_.deadline_ns();
    }
  }
  return congestion_ == nullptr ? deadline : std::min(deadline, congestion_->wait_until_ns);
}

void Endpoint::OnDeadline(PollContext& context) {
  if (deadline_ns() > context.now_ns) return;
  diagnostics_.Begin(context.now_ns);
  if (congestion_ != nullptr && congestion_->wait_until_ns <= context.now_ns) {
    congestion_->wait_until_ns = kNever;
    qp.Activate();
  }
  if (qp.type() == IBV_QPT_RC) {
    if (qp.sends() || qp.state() == IBV_QPS_RTR) rc_responder_.OnDeadline(context);
    if (qp.sends()) rc_requester_.OnDeadline(context);
  }
  NoteState();
}

}  // namespace pollux::transport
