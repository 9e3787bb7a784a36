#include "stack/transport/message/inbound_message.h"

#include <algorithm>
#include <cstring>

#include "stack/base/planted_fault.h"
#include "stack/transport/message/scatter.h"

namespace pollux::transport {
namespace {

bool IsFirst(const wire::RocePacket& packet) {
  return (packet.info->position & (wire::kFirst | wire::kOnly)) != 0;
}
bool IsLast(const wire::RocePacket& packet) {
  return (packet.info->position & (wire::kLast | wire::kOnly)) != 0;
}

}  // namespace

InboundMessage::Result InboundMessage::AcceptSend(const wire::RocePacket& packet,
                                                  PollContext& context) {
  if (!qp_->TakeRecv()) return Result::kNotReady;
  const verbs::RecvWqe& receive = qp_->recv();
  const uint32_t offset = IsFirst(packet) ? 0 : bytes_;
  if (packet.payload_length > receive.length - std::min(offset, receive.length)) {
    return Result::kTooLong;
  }
  if (!Scatter(qp_->recv_pd(), qp_->recv_sge(), receive.num_sge, offset, packet.payload(),
               packet.payload_length)) {
    qp_->FailRecv(IBV_WC_LOC_PROT_ERR);
    return Result::kReceiveFault;
  }
  bytes_ = offset + packet.payload_length;
  kind_ = Kind::kSend;
  if (!IsLast(packet)) return Result::kPlaced;
  const bool immediate = (packet.info->headers & wire::kHasImmediate) != 0;
  const bool invalidates = (packet.info->headers & wire::kHasIeth) != 0;
  if (invalidates) {
    const memory::ProtectionDomain& pd = *qp_->init().pd;
    if (!pd.regions->InvalidateRemote(pd, qp_->qpn().value, packet.ieth())) {
      // As Linux rxe reports it.
      qp_->FailRecv(IBV_WC_REM_INV_REQ_ERR);
      return Result::kInvalidateFault;
    }
  }
  diagnostics_->Count(&Counters::rdma_recvs, context.counters);
  qp_->WriteRecvCompletion(packet.bth.solicited, [&](ibv_wc& wc) {
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = bytes_;
    wc.src_qp = qp_->attr.dest_qp_num;
    if (immediate) {
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = packet.immediate_be();
    } else if (invalidates) {
      wc.wc_flags = IBV_WC_WITH_INV;
      wc.invalidated_rkey = packet.ieth();
    }
  });
  return Result::kComplete;
}

bool InboundMessage::TryAcceptSend(const verbs::PostedRecv& receive, const uint8_t* payload,
                                   size_t bytes, bool solicited, PollContext& context) {
  if (!MayAcceptSend(bytes)) [[unlikely]]
    return false;
  const ibv_sge& sge = receive.element;
  const memory::ProtectionDomain& pd = *qp_->init().pd;
  const memory::MemoryRegion* region = pd.regions->FindLocal(pd, sge.lkey, IBV_ACCESS_LOCAL_WRITE);
  if (region == nullptr || !region->Contains(sge.addr, bytes)) [[unlikely]]
    return false;
  uint8_t* const at = region->At(sge.addr);
  std::memcpy(at, payload, bytes);
  if (Planted(Fault::kOneByteBeyond)) at[bytes] ^= 0xFF;
  diagnostics_->Count(&Counters::rdma_recvs, context.counters);
  qp_->CompletePacketRecv(receive, solicited, [&](ibv_wc& wc) {
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = static_cast<uint32_t>(bytes);
    wc.src_qp = qp_->attr.dest_qp_num;
  });
  return true;
}

bool InboundMessage::TryAcceptWrite(const uint8_t* reth_and_payload, size_t bytes) {
  if (kind_ != Kind::kNone || bytes <= wire::kRethBytes ||
      bytes > wire::kRethBytes + qp_->PathMtuBytes() ||
      (qp_->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) == 0) [[unlikely]] {
    return false;
  }
  const wire::Reth reth = wire::ParseReth(reth_and_payload);
  const size_t payload_bytes = bytes - wire::kRethBytes;
  uint8_t* at;
  if (reth.length != payload_bytes || Check(reth, 0, reth.length, &at) != memory::AccessResult::kOk)
      [[unlikely]] {
    return false;
  }
  std::memcpy(at, reth_and_payload + wire::kRethBytes, payload_bytes);
  return true;
}

memory::AccessResult InboundMessage::Check(const wire::Reth& reth, uint64_t offset, uint32_t bytes,
                                           uint8_t** at) const {
  const memory::ProtectionDomain& pd = *qp_->init().pd;
  return pd.regions->CheckRemote(pd, qp_->qpn().value, reth.rkey, reth.address + offset, bytes,
                                 IBV_ACCESS_REMOTE_WRITE, at);
}

InboundMessage::Result InboundMessage::AcceptWrite(const wire::RocePacket& packet,
                                                   PollContext& context) {
  const bool first = IsFirst(packet);
  const bool last = IsLast(packet);
  const bool immediate = (packet.info->headers & wire::kHasImmediate) != 0;
  const wire::Reth reth = first ? packet.reth() : write_;
  const uint32_t offset = first ? 0 : bytes_;
  const uint32_t left = reth.length - offset;
  if (reth.length > verbs::kMaxMessage ||
      (last ? packet.payload_length != left : packet.payload_length >= left) ||
      (qp_->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) == 0) {
    return Result::kInvalidRequest;
  }
  if (immediate && qp_->NextRecv() == nullptr) return Result::kNotReady;
  // The whole message is checked before its first byte is placed, and every packet again: the key
  // may have been withdrawn in between.
  uint8_t* at;
  if ((first && Check(reth, 0, reth.length, &at) != memory::AccessResult::kOk) ||
      Check(reth, offset, packet.payload_length, &at) != memory::AccessResult::kOk) {
    return Result::kAccess;
  }
  // After the checks, since a receive cannot be put back into a shared receive queue.
  if (immediate) qp_->TakeRecv();
  if (packet.payload_length > 0) std::copy_n(packet.payload(), packet.payload_length, at);
  write_ = reth;
  bytes_ = offset + packet.payload_length;
  kind_ = Kind::kWrite;
  if (!last) return Result::kPlaced;
  if (immediate) {
    ibv_wc wc{};
    wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    wc.byte_len = reth.length;
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = packet.immediate_be();
    wc.src_qp = qp_->attr.dest_qp_num;
    diagnostics_->Count(&Counters::rdma_recvs, context.counters);
    qp_->CompleteRecv(wc, packet.bth.solicited);
  }
  return Result::kComplete;
}

}  // namespace pollux::transport
