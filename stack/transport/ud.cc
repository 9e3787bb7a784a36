#include "stack/transport/ud.h"

#include <cstring>

#include "stack/transport/message/gather.h"
#include "stack/transport/message/scatter.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

constexpr uint32_t kQkeyIsOwn = 0x80000000;  // IB specification C10-15
constexpr size_t kIpv4HeaderBytes = 20;

// A completion says by which header a datagram came (IB specification, A17.4.5.1). verbs.h has no
// member for it; it stands where mlx5 puts it and programs look for it, in the service level, of
// which Ethernet has none: UDP, and the version of IP.
constexpr uint8_t kUdpOverIpv6 = 8 | 1;
constexpr uint8_t kUdpOverIpv4 = 8 | 2;

}  // namespace

void Ud::OnPacket(const wire::RocePacket& packet, PollContext& context) {
  const wire::Deth deth = packet.deth();
  if (deth.qkey != qp_->attr.qkey) {
    diagnostics_->Count(Drop::kBadQkey, context.counters);
    return;
  }
  const verbs::RecvWqe* const receive = qp_->NextRecv();
  if (receive == nullptr) {
    diagnostics_->Count(Drop::kNoReceive, context.counters);
    return;
  }
  if (receive->length < kGrhBytes + packet.payload_length) {
    diagnostics_->Count(Drop::kReceiveTooSmall, context.counters);
    return;
  }
  // After the checks, since a receive cannot be put back into a shared receive queue.
  qp_->TakeRecv();
  uint8_t grh[kGrhBytes] = {};
  if (packet.ip_version == 4) {
    std::memcpy(grh + kGrhBytes - kIpv4HeaderBytes, packet.frame + packet.l3_offset,
                kIpv4HeaderBytes);
  } else {
    std::memcpy(grh, packet.frame + packet.l3_offset, kGrhBytes);
  }
  const memory::ProtectionDomain& pd = qp_->recv_pd();
  const ibv_sge* sge = qp_->recv_sge();
  const int num_sge = qp_->recv().num_sge;
  if (!Scatter(pd, sge, num_sge, 0, grh, kGrhBytes) ||
      !Scatter(pd, sge, num_sge, kGrhBytes, packet.payload(), packet.payload_length)) {
    qp_->FailRecv(IBV_WC_LOC_PROT_ERR);
    diagnostics_->Event(IBV_EVENT_QP_FATAL);
    qp_->RaiseEvent(IBV_EVENT_QP_FATAL);
    qp_->EnterError();
    return;
  }
  ibv_wc wc{};
  wc.opcode = IBV_WC_RECV;
  wc.src_qp = deth.source_qpn.value;
  wc.byte_len = kGrhBytes + packet.payload_length;
  wc.wc_flags = IBV_WC_GRH;
  wc.sl = packet.ip_version == 4 ? kUdpOverIpv4 : kUdpOverIpv6;
  if ((packet.info->headers & wire::kHasImmediate) != 0) {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = packet.immediate_be();
  }
  diagnostics_->Count(&Counters::rdma_recvs, context.counters);
  qp_->CompleteRecv(wc, packet.bth.solicited);
}

bool Ud::Transmit(PollContext& context, int* budget) {
  while (qp_->state() == IBV_QPS_RTS && qp_->sq_head() != qp_->sq_tail()) {
    if (*budget == 0 || context.egress.room() == 0 || context.egress.TurnIsOver()) return true;
    if (!SendHead(context)) return true;
    --*budget;
  }
  return false;
}

// False when there was no mbuf.
bool Ud::SendHead(PollContext& context) {
  const uint32_t index = qp_->sq_head();
  const verbs::SendWqe& wqe = qp_->sq(index);
  const bool immediate = wqe.opcode == IBV_WR_SEND_WITH_IMM;
  builder_.Reset(wqe.ah, qp_->qpn(), Qpn{wqe.remote_qpn}, {.data_ecn = qp_->data_ecn});
  if (!builder_.Begin(
          {.opcode = immediate ? wire::Opcode::kUdSendOnlyImm : wire::Opcode::kUdSendOnly,
           .psn = psn_,
           .solicited = (wqe.send_flags & IBV_SEND_SOLICITED) != 0,
           .ext_bytes =
               static_cast<uint8_t>(wire::kDethBytes + (immediate ? wire::kImmediateBytes : 0)),
           .payload_bytes = wqe.length},
          context)) {
    return false;
  }
  const uint32_t qkey = (wqe.remote_qkey & kQkeyIsOwn) != 0 ? qp_->attr.qkey : wqe.remote_qkey;
  wire::EmitDeth({.qkey = qkey, .source_qpn = qp_->qpn()}, builder_.ext());
  if (immediate) wire::EmitImmediate(wqe.immediate_be, builder_.ext() + wire::kDethBytes);
  if (!Gather(*qp_, index, 0, wqe.length, builder_)) {
    builder_.Abandon();
    qp_->FinishSend(IBV_WC_LOC_PROT_ERR);
    return true;
  }
  builder_.Finish(context);
  psn_ += 1;
  diagnostics_->Count(&Counters::rdma_sends, context.counters);
  qp_->FinishSend(IBV_WC_SUCCESS);
  return true;
}

}  // namespace pollux::transport
