// Events of an object that its program has been given and has not acknowledged yet: destroying the
// object waits for them. Source: ibv_ack_cq_events(3), ibv_ack_async_event(3),
// rdma_ack_cm_event(3).
#ifndef POLLUX_ABI_DELIVERIES_H_
#define POLLUX_ABI_DELIVERIES_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace pollux::abi {

// Any thread.
class Deliveries {
 public:
  void Deliver() {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  // More than were delivered count as all of them.
  void Acknowledge(uint32_t count = 1) {
    const std::lock_guard lock(mutex_);
    open_ -= count < open_ ? count : open_;
    if (open_ == 0) none_open_.notify_all();
  }
  // Blocks for as long as the program owes one, as the real library does.
  void AwaitAll() {
    std::unique_lock lock(mutex_);
    none_open_.wait(lock, [this] { return open_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_open_;
  uint32_t open_ = 0;
};

}  // namespace pollux::abi

#endif  // POLLUX_ABI_DELIVERIES_H_
