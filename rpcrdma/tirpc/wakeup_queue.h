// A queue of messages from one thread to another that sleeps in poll().
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

// The number of messages in all queues of one consumer.
using Backlog = std::atomic<uint32_t>;

// One thread pushes and another one pops. Push() makes a system call only if the consumer has armed
// the queue.
template <class T>
class WakeupQueue {
 public:
  // Holds `capacity` messages, which are counted in `backlog`. Returns null if there is no file
  // descriptor left.
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

  // Readable if a message was pushed since Arm() returned true (or, before the first Arm(), at any
  // time), and after Announce().
  int fd() const { return fd_; }
  const std::shared_ptr<Backlog>& backlog() const { return backlog_; }

  // For the producer. Returns false, and leaves `message` unchanged, if the queue is full.
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

  // For the consumer. Returns false if the queue is empty.
  bool Pop(T* message) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    *message = std::move(slots_[head & (slots_.size() - 1)]);
    head_.store(head + 1, std::memory_order_release);
    backlog_->fetch_sub(1);
    return true;
  }
  // For the consumer: makes the descriptor readable for messages that are already queued.
  void Announce() { eventfd_write(fd_, 1); }
  // For the consumer: the next message will make the descriptor readable. Returns false if a
  // message is already queued.
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
