// The calls of a program that builds work requests: ibv_wr_start(3) to ibv_wr_complete(3).
#include <cstddef>
#include <cstring>

#include "compat/verbs/objects.h"

namespace pollux::compat {
namespace {

void Start(ibv_qp_ex* qp) { Of(qp)->chain.Start(); }

verbs::FlushWorkRequest* Begin(ibv_qp_ex* qp, ibv_wr_opcode opcode) {
  verbs::FlushWorkRequest* request = Of(qp)->chain.Begin();
  if (request == nullptr) return nullptr;
  request->wr_id = qp->wr_id;
  request->send_flags = qp->wr_flags;
  request->opcode = opcode;
  return request;
}

verbs::FlushWorkRequest* BeginRdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey,
                                   uint64_t remote) {
  verbs::FlushWorkRequest* request = Begin(qp, opcode);
  if (request == nullptr) return nullptr;
  request->wr.rdma.rkey = rkey;
  request->wr.rdma.remote_addr = remote;
  return request;
}

ibv_send_wr* BeginAtomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote) {
  ibv_send_wr* request = Begin(qp, opcode);
  if (request == nullptr) return nullptr;
  request->wr.atomic.rkey = rkey;
  request->wr.atomic.remote_addr = remote;
  return request;
}

void AtomicCmpSwp(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, uint64_t compare, uint64_t swap) {
  ibv_send_wr* request = BeginAtomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote);
  if (request == nullptr) return;
  request->wr.atomic.compare_add = compare;
  request->wr.atomic.swap = swap;
}

void AtomicFetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, uint64_t add) {
  ibv_send_wr* request = BeginAtomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote);
  if (request != nullptr) request->wr.atomic.compare_add = add;
}

void AtomicWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, const void* atomic_wr) {
  constexpr size_t kBytes = 8;
  if (BeginRdma(qp, IBV_WR_ATOMIC_WRITE, rkey, remote) == nullptr) return;
  const ibv_data_buf data{const_cast<void*>(atomic_wr), kBytes};
  Of(qp)->chain.SetInline(&data, 1);
}

void Flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, size_t length, uint8_t type,
           uint8_t level) {
  verbs::FlushWorkRequest* request = BeginRdma(qp, verbs::kWrFlush, rkey, remote);
  if (request == nullptr) return;
  request->length = length;
  request->placement = type;
  request->selectivity = level;
}

void BindWindow(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  ibv_send_wr* request = Begin(qp, IBV_WR_BIND_MW);
  if (request == nullptr) return;
  request->bind_mw.mw = mw;
  request->bind_mw.rkey = rkey;
  request->bind_mw.bind_info = *info;
}

void LocalInv(ibv_qp_ex* qp, uint32_t rkey) {
  ibv_send_wr* request = Begin(qp, IBV_WR_LOCAL_INV);
  if (request != nullptr) request->invalidate_rkey = rkey;
}

void RdmaRead(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote) {
  BeginRdma(qp, IBV_WR_RDMA_READ, rkey, remote);
}

void RdmaWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote) {
  BeginRdma(qp, IBV_WR_RDMA_WRITE, rkey, remote);
}

void RdmaWriteImm(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, __be32 imm_data) {
  ibv_send_wr* request = BeginRdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote);
  if (request != nullptr) request->imm_data = imm_data;
}

void Send(ibv_qp_ex* qp) { Begin(qp, IBV_WR_SEND); }

void SendImm(ibv_qp_ex* qp, __be32 imm_data) {
  ibv_send_wr* request = Begin(qp, IBV_WR_SEND_WITH_IMM);
  if (request != nullptr) request->imm_data = imm_data;
}

void SendInv(ibv_qp_ex* qp, uint32_t rkey) {
  ibv_send_wr* request = Begin(qp, IBV_WR_SEND_WITH_INV);
  if (request != nullptr) request->invalidate_rkey = rkey;
}

void SetUdAddr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  ibv_send_wr* request = Of(qp)->chain.Last();
  if (request == nullptr) return;
  request->wr.ud.ah = ah;
  request->wr.ud.remote_qpn = remote_qpn;
  request->wr.ud.remote_qkey = remote_qkey;
}

void SetInlineDataList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  Of(qp)->chain.SetInline(list, count);
}

void SetInlineData(ibv_qp_ex* qp, void* address, size_t length) {
  const ibv_data_buf data{address, length};
  SetInlineDataList(qp, 1, &data);
}

void SetSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  Of(qp)->chain.SetElements(list, count);
}

void SetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge sge{address, length, lkey};
  SetSgeList(qp, 1, &sge);
}

int Complete(ibv_qp_ex* qp) {
  WorkRequestChain& chain = Of(qp)->chain;
  int error = chain.error();
  if (error == 0 && chain.first() != nullptr) error = PostChain(Of(qp), chain.first());
  chain.End();
  return error;
}

void Abort(ibv_qp_ex* qp) { Of(qp)->chain.End(); }

}  // namespace

void SetBuilder(Qp* qp) {
  qp->chain.Reserve(qp->native->init().cap);
  qp->wr_start = Start;
  qp->wr_complete = Complete;
  qp->wr_abort = Abort;
  qp->wr_atomic_cmp_swp = AtomicCmpSwp;
  qp->wr_atomic_fetch_add = AtomicFetchAdd;
  qp->wr_atomic_write = AtomicWrite;
  const FlushBuilder flush = Flush;
  std::memcpy(reinterpret_cast<std::byte*>(qp) + kWrFlushOffset, &flush, sizeof flush);
  qp->wr_bind_mw = BindWindow;
  qp->wr_local_inv = LocalInv;
  qp->wr_rdma_read = RdmaRead;
  qp->wr_rdma_write = RdmaWrite;
  qp->wr_rdma_write_imm = RdmaWriteImm;
  qp->wr_send = Send;
  qp->wr_send_imm = SendImm;
  qp->wr_send_inv = SendInv;
  qp->wr_set_ud_addr = SetUdAddr;
  qp->wr_set_inline_data = SetInlineData;
  qp->wr_set_inline_data_list = SetInlineDataList;
  qp->wr_set_sge = SetSge;
  qp->wr_set_sge_list = SetSgeList;
}

}  // namespace pollux::compat
