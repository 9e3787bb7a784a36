// Building work requests by calls: ibv_wr_start(3) to ibv_wr_complete(3).
//
// What is wrong with a request is found when the chain is posted; then none of it is.
#include <cerrno>
#include <cstring>

#include "abi/objects.h"

namespace pollux::abi {
namespace {

// A chain holds no more than a send queue.
constexpr size_t kMaxRequests = verbs::kMaxWorkRequests;

using Request = Builder::Request;

void Start(ibv_qp_ex* qp) {
  Builder& builder = Of(qp)->builder;
  builder.count = 0;
  builder.error = 0;
}

// The one that is being built; null after an error.
Request* Last(ibv_qp_ex* qp) {
  Builder& builder = Of(qp)->builder;
  if (builder.error == 0 && builder.count == 0) builder.error = EINVAL;
  return builder.error != 0 ? nullptr : &builder.requests[builder.count - 1];
}

Request* Begin(ibv_qp_ex* qp, ibv_wr_opcode opcode) {
  Builder& builder = Of(qp)->builder;
  if (builder.count == kMaxRequests && builder.error == 0) builder.error = ENOMEM;
  if (builder.error != 0) return nullptr;
  if (builder.count == builder.requests.size()) builder.requests.emplace_back();
  Request& request = builder.requests[builder.count++];
  request.wr = ibv_send_wr{};
  request.sges.clear();
  request.inline_data.clear();
  request.wr.wr_id = qp->wr_id;
  request.wr.send_flags = qp->wr_flags;
  request.wr.opcode = opcode;
  return &request;
}

Request* BeginRdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote) {
  Request* request = Begin(qp, opcode);
  if (request == nullptr) return nullptr;
  request->wr.wr.rdma.rkey = rkey;
  request->wr.wr.rdma.remote_addr = remote;
  return request;
}

Request* BeginAtomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote) {
  Request* request = Begin(qp, opcode);
  if (request == nullptr) return nullptr;
  request->wr.wr.atomic.rkey = rkey;
  request->wr.wr.atomic.remote_addr = remote;
  return request;
}

void AtomicCmpSwp(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, uint64_t compare, uint64_t swap) {
  Request* request = BeginAtomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote);
  if (request == nullptr) return;
  request->wr.wr.atomic.compare_add = compare;
  request->wr.wr.atomic.swap = swap;
}

void AtomicFetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, uint64_t add) {
  Request* request = BeginAtomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote);
  if (request != nullptr) request->wr.wr.atomic.compare_add = add;
}

void BindWindow(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  Request* request = Begin(qp, IBV_WR_BIND_MW);
  if (request == nullptr) return;
  request->wr.bind_mw.mw = mw;
  request->wr.bind_mw.rkey = rkey;
  request->wr.bind_mw.bind_info = *info;
}

void LocalInv(ibv_qp_ex* qp, uint32_t rkey) {
  Request* request = Begin(qp, IBV_WR_LOCAL_INV);
  if (request != nullptr) request->wr.invalidate_rkey = rkey;
}

void RdmaRead(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote) {
  BeginRdma(qp, IBV_WR_RDMA_READ, rkey, remote);
}

void RdmaWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote) {
  BeginRdma(qp, IBV_WR_RDMA_WRITE, rkey, remote);
}

void RdmaWriteImm(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote, __be32 imm_data) {
  Request* request = BeginRdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote);
  if (request != nullptr) request->wr.imm_data = imm_data;
}

void Send(ibv_qp_ex* qp) { Begin(qp, IBV_WR_SEND); }

void SendImm(ibv_qp_ex* qp, __be32 imm_data) {
  Request* request = Begin(qp, IBV_WR_SEND_WITH_IMM);
  if (request != nullptr) request->wr.imm_data = imm_data;
}

void SendInv(ibv_qp_ex* qp, uint32_t rkey) {
  Request* request = Begin(qp, IBV_WR_SEND_WITH_INV);
  if (request != nullptr) request->wr.invalidate_rkey = rkey;
}

void SetUdAddr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  Request* request = Last(qp);
  if (request == nullptr) return;
  request->wr.wr.ud.ah = ah;
  request->wr.wr.ud.remote_qpn = remote_qpn;
  request->wr.wr.ud.remote_qkey = remote_qkey;
}

void SetInlineDataList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  Request* request = Last(qp);
  if (request == nullptr) return;
  request->wr.send_flags |= IBV_SEND_INLINE;
  for (size_t i = 0; i < count; ++i) {
    // More than any queue pair takes: an address is not to be believed that far.
    if (list[i].length > verbs::kMaxInline - request->inline_data.size()) {
      Of(qp)->builder.error = EINVAL;
      return;
    }
    const auto* from = static_cast<const uint8_t*>(list[i].addr);
    request->inline_data.insert(request->inline_data.end(), from, from + list[i].length);
  }
}

void SetInlineData(ibv_qp_ex* qp, void* address, size_t length) {
  const ibv_data_buf buffer{address, length};
  SetInlineDataList(qp, 1, &buffer);
}

void SetSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  Request* request = Last(qp);
  if (request == nullptr) return;
  if (count > verbs::kMaxSge) {
    Of(qp)->builder.error = EINVAL;
    return;
  }
  request->sges.assign(list, list + count);
}

void SetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge sge{address, length, lkey};
  SetSgeList(qp, 1, &sge);
}

int Complete(ibv_qp_ex* qp) {
  Builder& builder = Of(qp)->builder;
  if (builder.error != 0) return builder.error;
  ibv_send_wr* next = nullptr;
  for (size_t left = std::exchange(builder.count, 0); left > 0; --left) {
    Request& request = builder.requests[left - 1];
    if ((request.wr.send_flags & IBV_SEND_INLINE) != 0) {
      request.sges.assign(1, {reinterpret_cast<uintptr_t>(request.inline_data.data()),
                              static_cast<uint32_t>(request.inline_data.size()), 0});
    }
    request.wr.sg_list = request.sges.data();
    request.wr.num_sge = static_cast<int>(request.sges.size());
    request.wr.next = std::exchange(next, &request.wr);
  }
  if (next == nullptr) return 0;
  ibv_send_wr* bad = nullptr;
  return PostSend(&qp->qp_base, next, &bad);
}

void Abort(ibv_qp_ex* qp) { Start(qp); }

}  // namespace

void SetBuilder(Qp* qp) {
  qp->wr_start = Start;
  qp->wr_complete = Complete;
  qp->wr_abort = Abort;
  qp->wr_atomic_cmp_swp = AtomicCmpSwp;
  qp->wr_atomic_fetch_add = AtomicFetchAdd;
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

}  // namespace pollux::abi
