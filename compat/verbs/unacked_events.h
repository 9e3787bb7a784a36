// Counts the events of an object that were delivered to the program and are not acknowledged yet:
// destroying the object waits until they are. Source: ibv_ack_cq_events(3), ibv_ack_async_event(3),
// rdma_ack_cm_event(3).
#ifndef POLLUX_COMPAT_VERBS_UNACKED_EVENTS_H_
#define POLLUX_COMPAT_VERBS_UNACKED_EVENTS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "compat/process/forked_child.h"

namespace pollux::compat {

// Thread-safe. Uses no mutex: a forked child could inherit one that is locked by a thread which it
// does not have.
class UnackedEvents {
 public:
  void Deliver() { open_.fetch_add(1, std::memory_order_relaxed); }
  // A count larger than the number of open events acknowledges all of them.
  void Acknowledge(uint32_t count = 1) {
    uint32_t open = open_.load(std::memory_order_relaxed), left;
    do {
      left = open - std::min(count, open);
    } while (!open_.compare_exchange_weak(open, left, std::memory_order_release,
                                          std::memory_order_relaxed));
    // This object may be destroyed by now; only its address is used.
    if (left == 0 && open != 0) open_.notify_all();
  }
  // Blocks until all events are acknowledged, as the original library does. Returns at once in a
  // forked child, which lacks the threads that would acknowledge them.
  void AwaitAll() {
    if (ForkedChild::Is()) return;
    while (const uint32_t open = open_.load(std::memory_order_acquire)) {
      open_.wait(open, std::memory_order_acquire);
    }
  }

 private:
  std::atomic<uint32_t> open_{0};
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_UNACKED_EVENTS_H_
