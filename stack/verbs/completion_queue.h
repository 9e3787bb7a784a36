// A completion queue: a bounded ring of ibv_wc.
#ifndef POLLUX_STACK_VERBS_COMPLETION_QUEUE_H_
#define POLLUX_STACK_VERBS_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "stack/base/line_array.h"
#include "stack/verbs/completion_channel.h"
#include "stack/verbs/event_list.h"
#include "stack/verbs/limits.h"

namespace pollux::verbs {

class QueuePair;

// Owned by one worker; pushed, polled and armed there only. On cache lines of its own: who makes it
// may make one for another core next.
class alignas(64) CompletionQueue : public EventSource {
 public:
  // `handler` gets IBV_EVENT_CQ_ERR: a completion was lost, and all queue pairs that use this are
  // in error.
  explicit CompletionQueue(uint32_t entries, EventList* events = nullptr,
                           EventHandler handler = nullptr);
  ~CompletionQueue() override;
  // Whether there was memory for its entries; else it is of no use.
  bool has_memory() const { return ring_ != nullptr; }

  // Appends. False when full: the completion is lost and the queue is in overrun for good, so that
  // what is polled has no gap.
  // `solicited`: the message asked for an event.
  bool Push(const ibv_wc& wc, bool solicited = false) {
    return Write(solicited, [&wc](ibv_wc& place) { place = wc; });
  }
  // The same of one that `fill` writes in its place, which holds zeros before: one that is made of
  // its fields and then copied waits for each of them.
  template <class Fill>
  bool Write(bool solicited, Fill fill) {
    if (size() == capacity_ || overrun_) [[unlikely]]
      return Lose();
    ibv_wc& wc = ring_[tail_++ & mask_];
    wc = ibv_wc{};
    fill(wc);
    if (armed_ != Armed::kNot) [[unlikely]]
      Tell(wc, solicited);
    return true;
  }
  // Takes up to `n` completions, oldest first; returns how many.
  int Poll(int n, ibv_wc* wc) {
    const int taken = static_cast<int>(std::min<uint32_t>(std::max(n, 0), size()));
    for (int i = 0; i < taken; ++i) wc[i] = ring_[head_++ & mask_];
    return taken;
  }
  // The oldest, where it lies, until Pop(); null when there is none.
  const ibv_wc* front() const { return size() > 0 ? &ring_[head_ & mask_] : nullptr; }
  void Pop() { ++head_; }
  // Whether one of those that wait is of the queue pair.
  bool HasCompletionOf(uint32_t qp_num) const;

  // Announces in `channel` from now on; it outlives this. ResourceExhausted when the channel has
  // all the queues that it can take.
  absl::Status SetChannel(CompletionChannel* channel);
  // As ibv_req_notify_cq: the next completion, or the next solicited or failed one, is announced in
  // the channel, once. The announcement costs a system call, no other push does. No effect without
  // a channel.
  void Arm(bool solicited_only);
  // Announced and not taken from the channel yet.
  bool announced() const { return announced_.load(std::memory_order_acquire); }

  // As ibv_resize_cq. Errors: InvalidArgument outside 1 to kMaxCqEntries, FailedPrecondition when
  // more completions than that wait, ResourceExhausted without memory; nothing has changed then.
  absl::Status Resize(uint32_t entries);

  bool overrun() const { return overrun_; }
  uint32_t size() const { return tail_ - head_; }
  uint32_t capacity() const { return capacity_; }

  // Queue pairs that use it; one that sends and receives here counts twice.
  void Attach(QueuePair* qp) { users_.push_back(qp); }
  void Detach(QueuePair* qp);
  size_t use_count() const { return users_.size(); }

  void DeliverEvents() override;

 private:
  friend class CompletionChannel;
  enum class Armed : uint8_t { kNot, kSolicited, kAny };

  // There is no room for a completion: as Push().
  bool Lose();
  // Who has armed it is told, if `wc` is what he waits for.
  void Tell(const ibv_wc& wc, bool solicited);

  uint32_t capacity_;
  uint32_t mask_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  bool overrun_ = false;
  Armed armed_ = Armed::kNot;
  CompletionChannel* channel_ = nullptr;
  std::atomic<bool> announced_{false};
  LineArray<ibv_wc> ring_;
  std::vector<QueuePair*> users_;
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_COMPLETION_QUEUE_H_
