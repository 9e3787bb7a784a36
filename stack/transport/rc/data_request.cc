#include "stack/transport/rc/data_request.h"

#include <algorithm>

#include "stack/transport/message/scatter.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {

using verbs::SendWqe;
using wire::Opcode;

bool SendDataRequest(const verbs::QueuePair& qp, const SendWqe& wqe, uint32_t begin, uint32_t end,
                     PacketBuilder& builder, PollContext& context) {
  const bool writes = wqe.opcode == IBV_WR_ATOMIC_WRITE;
  const bool flushes = wqe.opcode == verbs::kWrFlush;
  const Opcode opcode = wqe.opcode == IBV_WR_RDMA_READ            ? Opcode::kRcReadRequest
                        : writes                                  ? Opcode::kRcAtomicWrite
                        : flushes                                 ? Opcode::kRcFlush
                        : wqe.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? Opcode::kRcCompareSwap
                                                                  : Opcode::kRcFetchAdd;
  const size_t ext_bytes = wqe.is_atomic() ? wire::kAtomicEthBytes
                           : flushes       ? wire::kFethBytes + wire::kRethBytes
                                           : wire::kRethBytes;
  if (!builder.Begin({.opcode = opcode,
                      .psn = wqe.first_psn + begin,
                      .ack_request = true,
                      .ext_bytes = static_cast<uint8_t>(ext_bytes),
                      .payload_bytes = writes ? wqe.length : 0},
                     context)) {
    return false;
  }
  if (wqe.is_atomic()) {
    const bool swaps = opcode == Opcode::kRcCompareSwap;
    wire::EmitAtomicEth({.address = wqe.remote_address,
                         .rkey = wqe.rkey,
                         .swap_or_add = swaps ? wqe.atomic.swap : wqe.atomic.compare_add,
                         .compare = swaps ? wqe.atomic.compare_add : 0},
                        builder.ext());
  } else if (flushes) {
    wire::EmitFeth({.placement = wqe.flush.placement, .selectivity = wqe.flush.selectivity},
                   builder.ext());
    wire::EmitReth({.address = wqe.remote_address, .rkey = wqe.rkey, .length = wqe.flush.length},
                   builder.ext() + wire::kFethBytes);
  } else {
    const uint32_t mtu = qp.PathMtuBytes();
    const uint32_t offset = begin * mtu;
    wire::EmitReth({.address = wqe.remote_address + offset,
                    .rkey = wqe.rkey,
                    .length = std::min(wqe.length - offset, (end - begin) * mtu)},
                   builder.ext());
  }
  if (writes) builder.Copy(wqe.atomic_write, wqe.length);
  builder.Finish(context);
  return true;
}

bool IsResponseTo(const wire::RocePacket& response, const SendWqe& wqe) {
  return response.info->operation == wire::Operation::kAtomicAck
             ? wqe.is_atomic()
             : wqe.opcode == IBV_WR_RDMA_READ || wqe.has_empty_response();
}

ibv_wc_status PlaceResponse(const wire::RocePacket& response, verbs::QueuePair& qp, uint32_t index,
                            uint32_t packet) {
  const SendWqe& wqe = qp.sq(index);
  if (wqe.has_empty_response()) {
    return response.payload_length == 0 ? IBV_WC_SUCCESS : IBV_WC_BAD_RESP_ERR;
  }
  const uint32_t offset = packet * qp.PathMtuBytes();
  const uint8_t* source = response.payload();
  uint32_t bytes = std::min(qp.PathMtuBytes(), wqe.length - offset);
  uint64_t original;  // host order, as the application finds it
  if (wqe.is_atomic()) {
    original = response.atomic_ack();
    source = reinterpret_cast<const uint8_t*>(&original);
    bytes = sizeof original;
  } else if (response.payload_length != bytes) {
    return IBV_WC_BAD_RESP_ERR;
  }
  return Scatter(*qp.init().pd, qp.sq_sge(index), wqe.num_sge, offset, source, bytes)
             ? IBV_WC_SUCCESS
             : IBV_WC_LOC_PROT_ERR;
}

}  // namespace pollux::transport
