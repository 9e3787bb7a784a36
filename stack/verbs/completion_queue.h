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
#include "stack/base/wakeup.h"
#include "stack/verbs/completion_channel.h"
#include "stack/verbs/event_list.h"
#include "stack/verbs/limits.h"

namespace pollux::verbs {

class QueuePair;

// Owned by one worker; only its core may push, poll and arm it. Aligned to cache lines, since its
// creator may create the next one for another core.
class alignas(64) CompletionQueue : public EventSource {
 public:
  // `entries` is the capacity in completions. `handler` receives IBV_EVENT_CQ_ERR after a
  // completion was lost; all queue pairs that use this queue are then in the error state.
  explicit CompletionQueue(uint32_t entries, EventList* events = nullptr,
                           EventHandler handler = nullptr);
  ~CompletionQueue() override;
  // Whether its entries could be allocated. If not, the queue must not be used.
  bool has_memory() const { return ring_ != nullptr; }

  // Appends a completion. Returns false if the queue is full. The completion is then lost, and the
  // queue accepts no further ones, so that polled completions have no gap. `solicited`: the sender
  // requested an event for the message.
  bool Push(const ibv_wc& wc, bool solicited = false) {
    return Write(solicited, [&wc](ibv_wc& place) { place = wc; });
  }
  // As Push(), but `fill` writes the fields of a zeroed entry in place: building a completion
  // elsewhere and copying it would stall on each field.
  template <class Fill>
  bool Write(bool solicited, Fill fill) {
    if (size() == capacity_ || overrun_) [[unlikely]]
      return Lose();
    ibv_wc& wc = ring_[tail_++ & mask_];
    wc = ibv_wc{};
    fill(wc);
    if (armed_ != Armed::kNot) Tell(wc, solicited);
    return true;
  }
  // Removes up to `n` completions, oldest first, into `wc`; returns their number.
  int Poll(int n, ibv_wc* wc) {
    const uint32_t waiting = size();
    if (waiting == 0) {
      // Restart at the beginning of the ring: a long ring then uses only as much memory as the
      // completions that wait at one time.
      head_ = tail_ = 0;
      return 0;
    }
    const int taken = static_cast<int>(std::min<uint32_t>(std::max(n, 0), waiting));
    for (int i = 0; i < taken; ++i) wc[i] = ring_[head_++ & mask_];
    return taken;
  }
  // The oldest completion in place, valid until Pop(); null if there is none.
  const ibv_wc* front() const { return size() > 0 ? &ring_[head_ & mask_] : nullptr; }
  void Pop() { ++head_; }
  // Whether an unpolled completion belongs to this queue pair.
  bool HasCompletionOf(uint32_t qp_num) const;

  // Sends events to `channel`, which is not owned and must outlive this queue. ResourceExhausted if
  // the channel has its maximum of queues.
  absl::Status SetChannel(CompletionChannel* channel);
  // The channel may then be destroyed before this queue. Disarms.
  void LeaveChannel();
  // As ibv_req_notify_cq: the next completion, or the next one that is solicited or failed, causes
  // one event in the channel. Writing the event costs a system call; no other push does. Has no
  // effect without a channel.
  void Arm(bool solicited_only);
  // Makes each completion, and the loss of one, wake `poller` (not owned, outlives this queue),
  // instead of using a channel.
  void WakeOnCompletion(Wakeup* poller) {
    poller_ = poller;
    armed_ = Armed::kPoller;
  }
  // Whether the channel holds an event of this queue.
  bool announced() const { return announced_.load(std::memory_order_acquire); }

  // As ibv_resize_cq. Errors change nothing: InvalidArgument outside 1 to kMaxCqEntries,
  // FailedPrecondition if more completions are unpolled, ResourceExhausted without memory.
  absl::Status Resize(uint32_t entries);

  bool overrun() const { return overrun_; }
  uint32_t size() const { return tail_ - head_; }
  uint32_t capacity() const { return capacity_; }

  // The queue pairs that use this queue. One that uses it for sends and receives counts twice.
  void Attach(QueuePair* qp) { users_.push_back(qp); }
  void Detach(QueuePair* qp);
  size_t use_count() const { return users_.size(); }

  void DeliverEvents() override;

 private:
  friend class CompletionChannel;
  enum class Armed : uint8_t { kNot, kSolicited, kAny, kPoller };

  // Handles a full queue, as Push() describes.
  bool Lose();
  // Wakes the poller, or sends an event if `wc` is of the kind that was armed.
  void Tell(const ibv_wc& wc, bool solicited);

  uint32_t capacity_;
  uint32_t mask_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  bool overrun_ = false;
  Armed armed_ = Armed::kNot;
  CompletionChannel* channel_ = nullptr;
  Wakeup* poller_ = nullptr;
  std::atomic<bool> announced_{false};
  LineArray<ibv_wc> ring_;
  std::vector<QueuePair*> users_;
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_COMPLETION_QUEUE_H_
