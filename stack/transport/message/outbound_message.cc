#include "stack/transport/message/outbound_message.h"

#include <algorithm>

#include "stack/transport/message/gather.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

using verbs::SendWqe;
using wire::Opcode;

bool HasImmediate(const SendWqe& wqe) {
  return wqe.opcode == IBV_WR_SEND_WITH_IMM || wqe.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

Opcode RcOpcode(const SendWqe& wqe, bool first, bool last) {
  const bool immediate = HasImmediate(wqe);
  if (wqe.is_write()) {
    if (first && last) return immediate ? Opcode::kRcWriteOnlyImm : Opcode::kRcWriteOnly;
    if (first) return Opcode::kRcWriteFirst;
    if (last) return immediate ? Opcode::kRcWriteLastImm : Opcode::kRcWriteLast;
    return Opcode::kRcWriteMiddle;
  }
  const bool invalidate = wqe.opcode == IBV_WR_SEND_WITH_INV;
  if (first && last) {
    return invalidate  ? Opcode::kRcSendOnlyInvalidate
           : immediate ? Opcode::kRcSendOnlyImm
                       : Opcode::kRcSendOnly;
  }
  if (first) return Opcode::kRcSendFirst;
  if (last) {
    return invalidate  ? Opcode::kRcSendLastInvalidate
           : immediate ? Opcode::kRcSendLastImm
                       : Opcode::kRcSendLast;
  }
  return Opcode::kRcSendMiddle;
}

// The transport is in the upper bits of an opcode; the operations are numbered alike.
Opcode OpcodeOf(ibv_qp_type type, Opcode rc) {
  constexpr auto kUc = static_cast<uint8_t>(Opcode::kUcSendFirst);
  return type == IBV_QPT_UC ? static_cast<Opcode>(static_cast<uint8_t>(rc) | kUc) : rc;
}

BuildResult SendShort(verbs::QueuePair& qp, uint32_t index, Psn psn, bool ack_request,
                      PacketBuilder& builder, PollContext& context) {
  const SendWqe& wqe = qp.sq(index);
  const ibv_sge& sge = *qp.sq_sge(index);
  const memory::ProtectionDomain& pd = *qp.init().pd;
  uint8_t* at;
  if (pd.regions->Check(pd, sge.lkey, sge.addr, wqe.length, 0, &at) != memory::AccessResult::kOk) {
    return BuildResult::kLocalFault;
  }
  const bool sent = builder.Send({.opcode = OpcodeOf(qp.type(), Opcode::kRcSendOnly),
                                  .psn = psn,
                                  .solicited = (wqe.send_flags & IBV_SEND_SOLICITED) != 0,
                                  .ack_request = ack_request,
                                  .payload_bytes = wqe.length},
                                 at, context);
  return sent ? BuildResult::kBuilt : BuildResult::kNoBuffer;
}

}  // namespace

BuildResult SendMessagePacket(verbs::QueuePair& qp, uint32_t index, uint32_t packet, Psn psn,
                              bool ack_request, PacketBuilder& builder, PollContext& context) {
  const SendWqe& wqe = qp.sq(index);
  if (wqe.is_short_send) [[likely]]
    return SendShort(qp, index, psn, ack_request, builder, context);
  const uint32_t mtu = qp.PathMtuBytes();
  const uint32_t offset = packet * mtu;
  const uint32_t bytes = std::min(mtu, wqe.length - offset);
  const bool first = packet == 0;
  const bool last = packet + 1 == wqe.packets;
  const bool reth = first && wqe.is_write();
  const bool immediate = last && HasImmediate(wqe);
  const bool invalidate = last && wqe.opcode == IBV_WR_SEND_WITH_INV;
  const size_t ext_bytes = (reth ? wire::kRethBytes : 0) + (immediate ? wire::kImmediateBytes : 0) +
                           (invalidate ? wire::kIethBytes : 0);
  // The peer notices SE only where it completes a receive.
  const bool solicited = last && (wqe.send_flags & IBV_SEND_SOLICITED) != 0;
  if (!builder.Begin({.opcode = OpcodeOf(qp.type(), RcOpcode(wqe, first, last)),
                      .psn = psn,
                      .solicited = solicited && wqe.opcode != IBV_WR_RDMA_WRITE,
                      .ack_request = ack_request,
                      .ext_bytes = static_cast<uint8_t>(ext_bytes),
                      .payload_bytes = bytes},
                     context)) {
    return BuildResult::kNoBuffer;
  }
  if (reth) {
    wire::EmitReth({.address = wqe.remote_address, .rkey = wqe.rkey, .length = wqe.length},
                   builder.ext());
  }
  uint8_t* rest = builder.ext() + (reth ? wire::kRethBytes : 0);
  if (immediate) wire::EmitImmediate(wqe.immediate_be, rest);
  if (invalidate) wire::EmitIeth(wqe.rkey, rest);
  if (!Gather(qp, index, offset, bytes, builder)) {
    builder.Abandon();
    return BuildResult::kLocalFault;
  }
  builder.Finish(context);
  return BuildResult::kBuilt;
}

}  // namespace pollux::transport
