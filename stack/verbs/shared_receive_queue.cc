#include "stack/verbs/shared_receive_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/verbs/limits.h"

namespace pollux::verbs {

SharedReceiveQueue::SharedReceiveQueue(memory::ProtectionDomain* pd, const ibv_srq_attr& attr,
                                       EventList* events, EventHandler handler)
    : EventSource(events, std::move(handler)), pd_(pd), attr_(attr) {
  attr_.max_wr = std::clamp<uint32_t>(attr_.max_wr, 1, kMaxWorkRequests);
  attr_.max_sge = std::clamp<uint32_t>(attr_.max_sge, 1, kMaxSge);
  attr_.srq_limit = 0;
  const size_t slots = std::bit_ceil(attr_.max_wr);
  mask_ = static_cast<uint32_t>(slots - 1);
  wqes_ = MakeLineArray<RecvWqe>(slots);
  sges_ = MakeLineArray<ibv_sge>(slots * attr_.max_sge);
}

int SharedReceiveQueue::PostRecv(const ibv_recv_wr* wr, const ibv_recv_wr** bad_wr) {
  for (; wr != nullptr; wr = wr->next) {
    uint64_t length = 0;
    int result = 0;
    if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > attr_.max_sge) {
      result = EINVAL;
    } else if (depth() == attr_.max_wr) {
      result = ENOMEM;
    } else {
      for (int i = 0; i < wr->num_sge; ++i) length += wr->sg_list[i].length;
      if (length > kMaxMessage) result = EINVAL;
    }
    if (result != 0) {
      if (bad_wr != nullptr) *bad_wr = wr;
      return result;
    }
    const uint32_t slot = tail_++ & mask_;
    wqes_[slot] = RecvWqe{.wr_id = wr->wr_id,
                          .length = static_cast<uint32_t>(length),
                          .num_sge = static_cast<uint16_t>(wr->num_sge)};
    std::copy_n(wr->sg_list, wr->num_sge, &sges_[slot * static_cast<size_t>(attr_.max_sge)]);
  }
  return 0;
}

bool SharedReceiveQueue::Pop(RecvWqe* wqe, ibv_sge* sge) {
  if (head_ == tail_) return false;
  const uint32_t slot = head_++ & mask_;
  *wqe = wqes_[slot];
  std::copy_n(&sges_[slot * static_cast<size_t>(attr_.max_sge)], wqe->num_sge, sge);
  CheckLimit();
  return true;
}

void SharedReceiveQueue::CheckLimit() {
  if (depth() >= attr_.srq_limit) return;
  attr_.srq_limit = 0;
  RaiseEvent(IBV_EVENT_SRQ_LIMIT_REACHED);
}

absl::Status SharedReceiveQueue::CheckModify(uint32_t max_wr, uint32_t limit) const {
  if (max_wr == 0 || max_wr > kMaxWorkRequests) {
    return absl::InvalidArgumentError(
        absl::StrFormat("modify shared receive queue: max_wr is %u; allowed are 1 to %u", max_wr,
                        kMaxWorkRequests));
  }
  if (limit > max_wr) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "modify shared receive queue: srq_limit is %u; it holds %u receives", limit, max_wr));
  }
  if (depth() > max_wr) {
    return absl::FailedPreconditionError(
        absl::StrFormat("modify shared receive queue: %u receives are posted, max_wr %u asked for",
                        depth(), max_wr));
  }
  return absl::OkStatus();
}

absl::Status SharedReceiveQueue::Modify(const ibv_srq_attr& change, int mask) {
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) {
    return absl::InvalidArgumentError(
        "modify shared receive queue: only IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT may be changed");
  }
  const uint32_t max_wr = (mask & IBV_SRQ_MAX_WR) != 0 ? change.max_wr : attr_.max_wr;
  const uint32_t limit = (mask & IBV_SRQ_LIMIT) != 0 ? change.srq_limit : attr_.srq_limit;
  if (absl::Status status = CheckModify(max_wr, limit); !status.ok()) return status;
  if (max_wr != attr_.max_wr) {
    if (absl::Status status = Resize(max_wr); !status.ok()) return status;
  }
  attr_.srq_limit = limit;
  CheckLimit();
  return absl::OkStatus();
}

absl::Status SharedReceiveQueue::Resize(uint32_t max_wr) {
  const size_t slots = std::bit_ceil(max_wr);
  auto wqes = MakeLineArray<RecvWqe>(slots);
  auto sges = MakeLineArray<ibv_sge>(slots * attr_.max_sge);
  if (wqes == nullptr || sges == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("shared receive queue: no memory for %u receives", max_wr));
  }
  const uint32_t posted = depth();
  for (uint32_t i = 0; i < posted; ++i) {
    const uint32_t from = (head_ + i) & mask_;
    wqes[i] = wqes_[from];
    std::copy_n(&sges_[from * static_cast<size_t>(attr_.max_sge)], attr_.max_sge,
                &sges[i * static_cast<size_t>(attr_.max_sge)]);
  }
  wqes_ = std::move(wqes);
  sges_ = std::move(sges);
  mask_ = static_cast<uint32_t>(slots - 1);
  attr_.max_wr = max_wr;
  head_ = 0;
  tail_ = posted;
  return absl::OkStatus();
}

}  // namespace pollux::verbs
