// Messages from one thread to one other that sleeps in poll().
#ifndef POLLUX_RPCRDMA_TIRPC_WAKEUP_QUEUE_H_
#define POLLUX_RPCRDMA_TIRPC_WAKEUP_QUEUE_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace pollux::rpcrdma::tirpc {

// How many messages wait in queues of one consumer.
using Backlog = std::atomic<uint32_t>;

// One thread pushes, one other pops. The pushing thread makes a system call only for a consumer
// that has armed the queue.
template <class T>
class WakeupQueue {
 public:
  // Holds `capacity` messages, which count in `backlog`. Null when there is no descriptor to be
  // had.
  static std::unique_ptr<WakeupQueue> Make(uint32_t capacity, std::shared_ptr<Backlog> backlog) {
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return nullptr;
    return std::unique_ptr<WakeupQueue>(
        new WakeupQueue(fd, std::bit_ceil(capacity), std::move(backlog)));
  }
  ~WakeupQueue() {
    backlog_->fetch_sub(tail_.load(std::memory_order_relaxed) -
                        head_.load(std::memory_order_relaxed));
    close(fd_);
  }
  WakeupQueue(const WakeupQueue&) = delete;
  WakeupQueue& operator=(const WakeupQueue&) = delete;

  // Readable when something came since Arm() returned true; before the first, when anything did;
  // and after Announce().
  int fd() const { return fd_; }
  const std::shared_ptr<Backlog>& backlog() const { return backlog_; }

  // Producer. False when it is full: `message` is untouched.
  bool Push(T& message) {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[tail & (slots_.size() - 1)] = std::move(message);
    backlog_->fetch_add(1);
    tail_.store(tail + 1);
    if (armed_.load()) {
      armed_.store(false);
      eventfd_write(fd_, 1);
    }
    return true;
  }

  // Consumer. False when it is empty.
  bool Pop(T* message) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    *message = std::move(slots_[head & (slots_.size() - 1)]);
    head_.store(head + 1, std::memory_order_release);
    backlog_->fetch_sub(1);
    return true;
  }
  // Consumer: to be told by the descriptor of what there is already.
  void Announce() { eventfd_write(fd_, 1); }
  // Consumer: the descriptor is to tell of the next message. False when there is one already.
  bool Arm() {
    if (!Empty()) return false;
    eventfd_t ignored;
    eventfd_read(fd_, &ignored);
    // Either this sees what the producer pushes, or the producer sees this: both are sequentially
    // consistent.
    armed_.store(true);
    return Empty();
  }

 private:
  WakeupQueue(int fd, uint32_t slots, std::shared_ptr<Backlog> backlog)
      : fd_(fd), slots_(slots), backlog_(std::move(backlog)) {}
  bool Empty() const { return head_.load(std::memory_order_relaxed) == tail_.load(); }

  const int fd_;
  std::vector<T> slots_;  // power of two
  const std::shared_ptr<Backlog> backlog_;
  std::atomic<bool> armed_{true};
  alignas(64) std::atomic<uint32_t> head_{0};
  alignas(64) std::atomic<uint32_t> tail_{0};
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_WAKEUP_QUEUE_H_
