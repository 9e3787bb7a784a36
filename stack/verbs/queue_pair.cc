#include "stack/verbs/queue_pair.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "stack/base/planted_fault.h"
#include "stack/verbs/qp_state.h"
#include "stack/wire/ext_headers.h"

namespace pollux::verbs {
namespace {

ibv_wc_opcode CompletionOpcode(ibv_wr_opcode opcode) {
  switch (static_cast<unsigned>(opcode)) {  // kWrFlush may be none of its values
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_ATOMIC_WRITE:
      return IBV_WC_ATOMIC_WRITE;
    case kWrFlush:
      return kWcFlush;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    case kWrRegMr:
      return kWcRegMr;
    default:
      return IBV_WC_SEND;
  }
}

bool HasOpcode(ibv_qp_type type, ibv_wr_opcode opcode) {
  switch (static_cast<unsigned>(opcode)) {  // kWrFlush may be none of its values
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return true;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_LOCAL_INV:
    case IBV_WR_BIND_MW:
    case kWrRegMr:
      return type == IBV_QPT_RC || type == IBV_QPT_UC;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_ATOMIC_WRITE:
    case kWrFlush:
    case IBV_WR_SEND_WITH_INV:
      return type == IBV_QPT_RC;
    default:
      return false;
  }
}

constexpr uint64_t kAtomicBytes = 8;

bool IsLegal(const FlushWorkRequest& flush) {
  constexpr uint8_t kPlacements = wire::kFlushGlobal | wire::kFlushPersistent;
  return (flush.length <= kMaxMessage || flush.selectivity == wire::kFlushRegion) &&
         flush.placement != 0 && (flush.placement & ~kPlacements) == 0 &&
         flush.selectivity <= wire::kFlushRegion;
}

// What the request names beside its memory.
void TakeOperands(const ibv_send_wr& wr, ibv_qp_type type, SendWqe& wqe) {
  if (type == IBV_QPT_UD) {
    wqe.ah = static_cast<AddressHandle*>(wr.wr.ud.ah);
    wqe.remote_qpn = wr.wr.ud.remote_qpn;
    wqe.remote_qkey = wr.wr.ud.remote_qkey;
    return;
  }
  switch (static_cast<unsigned>(wr.opcode)) {  // kWrFlush may be none of its values
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      wqe.remote_address = wr.wr.atomic.remote_addr;
      wqe.rkey = wr.wr.atomic.rkey;
      wqe.atomic = {wr.wr.atomic.compare_add, wr.wr.atomic.swap};
      break;
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      wqe.rkey = wr.invalidate_rkey;
      break;
    case IBV_WR_BIND_MW:
      wqe.rkey = wr.bind_mw.rkey;
      wqe.region_key = wr.bind_mw.bind_info.mr != nullptr ? wr.bind_mw.bind_info.mr->lkey : 0;
      wqe.memory = {wr.bind_mw.bind_info.addr, wr.bind_mw.bind_info.length};
      wqe.memory_access = wr.bind_mw.bind_info.mw_access_flags;
      break;
    case kWrRegMr: {
      const memory::Mapping& mapping = static_cast<const RegisterWorkRequest&>(wr).mapping;
      wqe.rkey = mapping.key;
      wqe.remote_address = mapping.iova;
      wqe.memory = {mapping.address, mapping.length};
      wqe.memory_access = static_cast<uint32_t>(mapping.access);
      break;
    }
    case kWrFlush: {
      const auto& flush = static_cast<const FlushWorkRequest&>(wr);
      const bool whole = flush.selectivity == wire::kFlushRegion;
      wqe.flush = {whole ? 0 : static_cast<uint32_t>(flush.length), flush.placement,
                   flush.selectivity};
      [[fallthrough]];
    }
    default:
      wqe.remote_address = wr.wr.rdma.remote_addr;
      wqe.rkey = wr.wr.rdma.rkey;
  }
}

}  // namespace

QueuePair::QueuePair(Qpn qpn, QueuePairInitAttr init, ActiveList* active, EventList* events)
    : EventSource(events, std::move(init.on_event)),
      active_(active),
      qpn_(qpn),
      init_(std::move(init)) {
  ibv_qp_cap& cap = init_.cap;
  if (srq() != nullptr) {
    cap.max_recv_wr = cap.max_recv_sge = 0;
    srq_sge_ = MakeLineArray<ibv_sge>(srq()->attr().max_sge);
  } else {
    cap.max_recv_wr = std::clamp<uint32_t>(cap.max_recv_wr, 1, kMaxWorkRequests);
    cap.max_recv_sge = std::clamp<uint32_t>(cap.max_recv_sge, 1, kMaxSge);
  }
  cap.max_send_wr = std::clamp<uint32_t>(cap.max_send_wr, 1, kMaxWorkRequests);
  cap.max_send_sge = std::clamp<uint32_t>(cap.max_send_sge, 1, kMaxSge);
  cap.max_inline_data = std::min(cap.max_inline_data, kMaxInline);
  attr.qp_state = IBV_QPS_RESET;
  attr.path_mtu = port_mtu_;
  attr.cap = cap;
  const size_t sq_slots = std::bit_ceil(cap.max_send_wr);
  const size_t rq_slots = std::bit_ceil(cap.max_recv_wr);
  sq_mask_ = static_cast<uint32_t>(sq_slots - 1);
  rq_mask_ = static_cast<uint32_t>(rq_slots - 1);
  sq_ = MakeLineArray<SendWqe>(sq_slots);
  sq_sge_ = MakeLineArray<ibv_sge>(sq_slots * cap.max_send_sge);
  sq_inline_ = MakeLineArray<uint8_t>(sq_slots * cap.max_inline_data);
  rq_ = MakeLineArray<PostedRecv>(rq_slots);
  if (cap.max_recv_sge > 1) rq_sge_ = MakeLineArray<ibv_sge>(rq_slots * cap.max_recv_sge);
}

QueuePair::~QueuePair() { active_->Remove(this); }

// 0 when `wr` may be taken, else an errno; the bytes of its message.
int QueuePair::CheckSend(const ibv_send_wr& wr, uint64_t* length) const {
  const ibv_qp_cap& cap = init_.cap;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  const bool atomic_write = wr.opcode == IBV_WR_ATOMIC_WRITE;
  SendWqe kind;
  kind.opcode = wr.opcode;
  if (!HasOpcode(type(), wr.opcode) || wr.num_sge < 0 ||
      static_cast<uint32_t>(wr.num_sge) > cap.max_send_sge ||
      (atomic_write ? !is_inline : is_inline && (kind.has_response() || kind.is_local())) ||
      (kind.is_local() && wr.num_sge != 0)) {
    return EINVAL;
  }
  *length = 0;
  for (int i = 0; i < wr.num_sge; ++i) *length += wr.sg_list[i].length;
  if (wr.opcode == kWrFlush) {
    if (!IsLegal(static_cast<const FlushWorkRequest&>(wr))) return EINVAL;
    *length = 0;
  }
  if (*length > kMaxMessage) return EINVAL;
  if (is_inline && !atomic_write && *length > cap.max_inline_data) return EINVAL;
  // As rxe. A responder answers a misaligned one by a NAK, which ends the connection.
  if (kind.is_atomic() &&
      (*length != kAtomicBytes || wr.wr.atomic.remote_addr % kAtomicBytes != 0)) {
    return EINVAL;
  }
  if (atomic_write && (*length != kAtomicBytes || wr.wr.rdma.remote_addr % kAtomicBytes != 0)) {
    return EINVAL;
  }
  if (type() == IBV_QPT_UD && (wr.wr.ud.ah == nullptr || *length > PathMtuBytes())) return EINVAL;
  if (PacketsOf(*length) >= Psn::kWindow) return EINVAL;
  return sq_tail_ - sq_head_ == cap.max_send_wr ? ENOMEM : 0;
}

int QueuePair::CheckSends(const ibv_send_wr* wr) const {
  if (!takes_sends()) return EINVAL;
  const uint32_t room = init_.cap.max_send_wr - (sq_tail_ - sq_head_);
  uint32_t count = 0;
  for (; wr != nullptr; wr = wr->next, ++count) {
    uint64_t length;
    if (const int error = CheckSend(*wr, &length); error != 0) return error;
  }
  return count > room && !flushes_sends() ? ENOMEM : 0;
}

// Takes `wr` if it is what most are: a SEND or an RDMA WRITE of one element that one packet
// carries, and for which there is room.
[[gnu::always_inline]] inline bool QueuePair::TakePlainSend(const ibv_send_wr& wr) {
  static_assert(IBV_WR_RDMA_WRITE == 0 && IBV_WR_SEND == 2);  // no other bit is set in either
  if ((wr.opcode & ~IBV_WR_SEND) != 0 || wr.num_sge != 1 ||
      (wr.send_flags & IBV_SEND_INLINE) != 0 || wr.sg_list->length - 1 >= most_plain_bytes_ ||
      sq_tail_ - sq_head_ >= init_.cap.max_send_wr) {
    return false;
  }
  SendWqe& wqe = sq_[sq_tail_++ & sq_mask_];
  FillPlain(wr.wr_id, *wr.sg_list, wr.opcode, wr.send_flags, wqe);
  wqe.remote_address = wr.wr.rdma.remote_addr;
  wqe.rkey = wr.wr.rdma.rkey;
  return true;
}

// 0 when `wr` was taken, else an errno.
[[gnu::noinline]] int QueuePair::TakeOtherSend(const ibv_send_wr& wr) {
  if (!takes_sends()) return EINVAL;
  uint64_t length;
  if (const int error = CheckSend(wr, &length); error != 0) return error;
  const uint64_t packets = PacketsOf(length);
  const ibv_qp_cap& cap = init_.cap;
  SendWqe& wqe = sq_[sq_tail_ & sq_mask_];
  wqe = SendWqe{};
  wqe.wr_id = wr.wr_id;
  wqe.length = static_cast<uint32_t>(length);
  wqe.opcode = wr.opcode;
  wqe.packets = wqe.is_local() ? 0 : static_cast<uint32_t>(packets);
  wqe.send_flags = static_cast<uint8_t>(wr.send_flags);
  wqe.immediate_be = wr.imm_data;
  TakeOperands(wr, type(), wqe);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    uint8_t* to = &sq_inline_[(sq_tail_ & sq_mask_) * static_cast<size_t>(cap.max_inline_data)];
    if (wr.opcode == IBV_WR_ATOMIC_WRITE) to = wqe.atomic_write;
    for (int i = 0; i < wr.num_sge; ++i) {
      if (wr.sg_list[i].length == 0) continue;
      std::memcpy(to, reinterpret_cast<const void*>(wr.sg_list[i].addr), wr.sg_list[i].length);
      to += wr.sg_list[i].length;
    }
  } else {
    wqe.num_sge = static_cast<uint8_t>(wr.num_sge);
    wqe.is_short_send = wr.opcode == IBV_WR_SEND && packets == 1 && wr.num_sge == 1 && length > 0;
    std::copy_n(wr.sg_list, wr.num_sge,
                &sq_sge_[(sq_tail_ & sq_mask_) * static_cast<size_t>(cap.max_send_sge)]);
  }
  ++sq_tail_;
  if (flushes_sends()) CompleteSend(IBV_WC_WR_FLUSH_ERR);
  return 0;
}

int QueuePair::PostSend(const ibv_send_wr* wr, const ibv_send_wr** bad_wr) {
  if (wr != nullptr && wr->next == nullptr && TakePlainSend(*wr)) [[likely]] {
    Activate();
    return 0;
  }
  return PostSendChain(wr, bad_wr);
}

int QueuePair::PostRecv(const ibv_recv_wr* wr, const ibv_recv_wr** bad_wr) {
  if (wr != nullptr && wr->next == nullptr && wr->num_sge == 1 &&
      TakePlainRecv(wr->wr_id, *wr->sg_list)) [[likely]] {
    return 0;
  }
  return PostRecvChain(wr, bad_wr);
}

// Out of line, like PostRecvChain(), so that posting a single request saves no registers for it.
[[gnu::noinline]] int QueuePair::PostSendChain(const ibv_send_wr* wr, const ibv_send_wr** bad_wr) {
  int result = 0;
  for (; wr != nullptr; wr = wr->next) {
    if (TakePlainSend(*wr)) [[likely]]
      continue;
    result = TakeOtherSend(*wr);
    if (result != 0) [[unlikely]] {
      if (bad_wr != nullptr) *bad_wr = wr;
      break;
    }
  }
  if (sq_head_ != sq_tail_) Activate();
  return result;
}

[[gnu::noinline]] int QueuePair::PostRecvChain(const ibv_recv_wr* wr, const ibv_recv_wr** bad_wr) {
  for (; wr != nullptr; wr = wr->next) {
    if (wr->num_sge == 1 && TakePlainRecv(wr->wr_id, *wr->sg_list)) [[likely]]
      continue;
    if (const int result = TakeRecvRequest(*wr); result != 0) {
      if (bad_wr != nullptr) *bad_wr = wr;
      return result;
    }
  }
  return 0;
}

// 0 when `wr` was taken, else an errno.
[[gnu::noinline]] int QueuePair::TakeRecvRequest(const ibv_recv_wr& wr) {
  if (state() == IBV_QPS_RESET || srq() != nullptr || wr.num_sge < 0 ||
      static_cast<uint32_t>(wr.num_sge) > init_.cap.max_recv_sge) {
    return EINVAL;
  }
  if (rq_tail_ - rq_head_ == init_.cap.max_recv_wr) return ENOMEM;
  uint64_t length = 0;
  for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
  if (length > kMaxMessage) return EINVAL;
  const uint32_t slot = rq_tail_++ & rq_mask_;
  PostedRecv& receive = rq_[slot];
  receive.wr_id = wr.wr_id;
  receive.length = static_cast<uint32_t>(length);
  receive.num_sge = static_cast<uint16_t>(wr.num_sge);
  if (wr.num_sge == 1) {
    receive.element = *wr.sg_list;
  } else if (wr.num_sge > 1) {
    std::copy_n(wr.sg_list, wr.num_sge,
                rq_sge_.get() + slot * static_cast<size_t>(init_.cap.max_recv_sge));
  }
  if (state() == IBV_QPS_ERR) FlushRecv();
  return 0;
}

[[gnu::noinline]] int QueuePair::PostOtherSend(uint64_t wr_id, ibv_sge sge, unsigned flags,
                                               uint32_t invalidate) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = invalidate != 0 ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  wr.invalidate_rkey = invalidate;
  wr.send_flags = flags;
  return PostSend(&wr, nullptr);
}

[[gnu::noinline]] int QueuePair::PostOtherRecv(uint64_t wr_id, ibv_sge sge) {
  const ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  return PostRecv(&wr, nullptr);
}

absl::Status QueuePair::Modify(const ibv_qp_attr& change, int mask) {
  if (absl::Status status = CheckModify(type(), state(), change, mask); !status.ok()) {
    return status;
  }
  const bool to_end = (mask & IBV_QP_STATE) != 0 &&
                      (change.qp_state == IBV_QPS_ERR || change.qp_state == IBV_QPS_RESET);
  if (attr.sq_draining != 0 && !to_end) {
    return absl::FailedPreconditionError(
        "modify queue pair: its send queue is draining; wait for IBV_EVENT_SQ_DRAINED, or until "
        "ibv_query_qp has sq_draining 0");
  }
  const auto take = [&](int bit, auto ibv_qp_attr::*field) {
    if ((mask & bit) != 0) attr.*field = change.*field;
  };
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  if ((mask & IBV_QP_STATE) == 0) return absl::OkStatus();
  if (change.qp_state == IBV_QPS_ERR) {
    EnterError();
  } else if (change.qp_state == IBV_QPS_RESET) {
    attr = ibv_qp_attr{};
    attr.path_mtu = port_mtu_;
    attr.cap = init_.cap;
    sq_head_ = sq_tail_;
    rq_head_ = rq_tail_;
    srq_taken_ = false;
    ForgetEvents();
  } else if (change.qp_state == IBV_QPS_SQD && state() != IBV_QPS_SQD) {
    attr.sq_draining = 1;
    attr.en_sqd_async_notify =
        (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 ? change.en_sqd_async_notify : uint8_t{0};
  }
  attr.qp_state = change.qp_state;
  attr.cur_qp_state = change.qp_state;
  SetPlainLimits();
  return absl::OkStatus();
}

void QueuePair::OnDrained() {
  attr.sq_draining = 0;
  if (attr.en_sqd_async_notify != 0) RaiseEvent(IBV_EVENT_SQ_DRAINED);
}

void QueuePair::PushSendCompletion(const SendWqe& wqe, ibv_wc_status status, uint32_t byte_len) {
  const bool written = init_.send_cq->Write(/*solicited=*/false, [&](ibv_wc& wc) {
    wc.wr_id = wqe.wr_id;
    wc.status = status;
    wc.opcode = CompletionOpcode(wqe.opcode);
    wc.byte_len = byte_len;
    wc.qp_num = qpn_.value;
  });
  if (!written) OnCompletionLost();
}

void QueuePair::FinishSend(ibv_wc_status status) {
  CompleteSend(status);
  if (status == IBV_WC_SUCCESS || !sends()) return;
  attr.qp_state = attr.cur_qp_state = IBV_QPS_SQE;
  SetPlainLimits();
  attr.sq_draining = 0;
  FlushSend();
}

bool QueuePair::TakeSharedRecv() {
  if (!srq_taken_) srq_taken_ = srq()->Pop(&srq_recv_, srq_sge_.get());
  return srq_taken_;
}

void QueuePair::FailRecv(ibv_wc_status status) {
  WriteRecvCompletion(/*solicited=*/false, [status](ibv_wc& wc) {
    wc.status = status;
    wc.opcode = IBV_WC_RECV;
  });
}

void QueuePair::OnCompletionLost() {
  if (attr.qp_state == IBV_QPS_ERR || attr.qp_state == IBV_QPS_RESET) return;
  RaiseEvent(IBV_EVENT_QP_FATAL);
  EnterError();
}

void QueuePair::FlushSend() {
  while (sq_head_ != sq_tail_) CompleteSend(IBV_WC_WR_FLUSH_ERR);
}

void QueuePair::FlushRecv() {
  if (Planted(Fault::kReceiveUnflushed)) return;
  while (srq() != nullptr ? srq_taken_ : rq_head_ != rq_tail_) FailRecv(IBV_WC_WR_FLUSH_ERR);
}

void QueuePair::EnterError() {
  const bool entered = attr.qp_state != IBV_QPS_ERR;
  attr.qp_state = IBV_QPS_ERR;
  attr.cur_qp_state = IBV_QPS_ERR;
  SetPlainLimits();
  attr.sq_draining = 0;
  FlushSend();
  FlushRecv();
  // It takes no more from the shared receive queue.
  if (srq() != nullptr && entered) RaiseEvent(IBV_EVENT_QP_LAST_WQE_REACHED);
}

}  // namespace pollux::verbs
