// A shared receive queue: receives that several queue pairs share.
#ifndef POLLUX_STACK_VERBS_SHARED_RECEIVE_QUEUE_H_
#define POLLUX_STACK_VERBS_SHARED_RECEIVE_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "absl/status/status.h"
#include "stack/base/line_array.h"
#include "stack/memory/protection_domain.h"
#include "stack/verbs/event_list.h"

namespace pollux::verbs {

// A posted receive.
struct RecvWqe {
  uint64_t wr_id = 0;
  uint32_t length = 0;  // bytes, all SGEs together
  uint16_t num_sge = 0;
};

// Owned by one worker, like all queue pairs that use it; only that core may call it. Aligned to
// cache lines, as a completion queue is. Source: IB specification 10.8.2.
class alignas(64) SharedReceiveQueue : public EventSource {
 public:
  // `attr`: max_wr and max_sge are used as given and must be within kMaxWorkRequests and kMaxSge;
  // srq_limit is ignored. `handler` receives IBV_EVENT_SRQ_LIMIT_REACHED.
  SharedReceiveQueue(memory::ProtectionDomain* pd, const ibv_srq_attr& attr, EventList* events,
                     EventHandler handler);
  // Whether its receives could be allocated; if not, it must not be used.
  bool has_memory() const { return wqes_ != nullptr && sges_ != nullptr; }

  // As ibv_post_srq_recv. Returns 0, or an errno with `*bad_wr` at the first request that was not
  // accepted: EINVAL (SGEs, length) or ENOMEM (full). The memory must stay untouched until the
  // completion.
  int PostRecv(const ibv_recv_wr* wr, const ibv_recv_wr** bad_wr);
  // Takes the oldest receive. `sge` must have room for max_sge elements. Returns false if none is
  // posted.
  bool Pop(RecvWqe* wqe, ibv_sge* sge);
  // The receive that Pop() takes next; null if none is posted. Valid until the next call.
  const RecvWqe* Front() const { return head_ == tail_ ? nullptr : &wqes_[head_ & mask_]; }

  // As ibv_modify_srq. IBV_SRQ_MAX_WR changes the size and keeps posted receives. IBV_SRQ_LIMIT
  // arms the event: it is raised once, as soon as fewer than srq_limit receives are posted; 0
  // disarms it. Errors change nothing: InvalidArgument for a size outside 1 to kMaxWorkRequests or
  // below the limit, FailedPrecondition if more receives are posted than would fit,
  // ResourceExhausted without memory.
  absl::Status Modify(const ibv_srq_attr& change, int mask);
  // srq_limit is 0 while the event is not armed.
  const ibv_srq_attr& attr() const { return attr_; }

  memory::ProtectionDomain* pd() const { return pd_; }
  uint32_t depth() const { return tail_ - head_; }

  uint32_t use_count = 0;  // queue pairs that use it

 private:
  void CheckLimit();
  absl::Status CheckModify(uint32_t max_wr, uint32_t limit) const;
  absl::Status Resize(uint32_t max_wr);

  memory::ProtectionDomain* pd_;
  ibv_srq_attr attr_;
  uint32_t mask_;
  uint32_t head_ = 0, tail_ = 0;
  LineArray<RecvWqe> wqes_;
  LineArray<ibv_sge> sges_;
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_SHARED_RECEIVE_QUEUE_H_
