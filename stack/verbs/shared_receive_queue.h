// A shared receive queue: receives that several queue pairs take from.
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
  uint32_t length = 0;  // bytes, summed
  uint16_t num_sge = 0;
};

// Owned by one worker, as are all queue pairs that take from it. On cache lines of its own, as a
// completion queue is. Source: IB specification 10.8.2.
class alignas(64) SharedReceiveQueue : public EventSource {
 public:
  // `attr`: max_wr and max_sge are taken as given, within kMaxWorkRequests and kMaxSge; srq_limit
  // is not looked at. `handler` gets IBV_EVENT_SRQ_LIMIT_REACHED.
  SharedReceiveQueue(memory::ProtectionDomain* pd, const ibv_srq_attr& attr, EventList* events,
                     EventHandler handler);
  // Whether there was memory for its receives; else it is of no use.
  bool has_memory() const { return wqes_ != nullptr && sges_ != nullptr; }

  // As ibv_post_srq_recv: 0, or EINVAL (elements, length) or ENOMEM (full) with `*bad_wr` at the
  // first request not taken.
  int PostRecv(const ibv_recv_wr* wr, const ibv_recv_wr** bad_wr);
  // Takes the oldest; `sge` has room for max_sge elements. False when none is posted.
  bool Pop(RecvWqe* wqe, ibv_sge* sge);

  // As ibv_modify_srq. IBV_SRQ_MAX_WR changes the size; what is posted stays. IBV_SRQ_LIMIT arms
  // the event: it is raised once, as soon as fewer than srq_limit receives are posted; 0 disarms.
  // On an error nothing has changed: InvalidArgument for a size outside 1 to kMaxWorkRequests, and
  // one below the limit, FailedPrecondition when more receives than that are posted,
  // ResourceExhausted without memory.
  absl::Status Modify(const ibv_srq_attr& change, int mask);
  // srq_limit is 0 when the event is not armed.
  const ibv_srq_attr& attr() const { return attr_; }

  memory::ProtectionDomain* pd() const { return pd_; }
  uint32_t depth() const { return tail_ - head_; }

  uint32_t use_count = 0;  // queue pairs that hold it

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
