// Wakes threads of this process that wait for a descriptor to become readable.
#ifndef POLLUX_STACK_BASE_FD_WAITER_H_
#define POLLUX_STACK_BASE_FD_WAITER_H_

#include <atomic>
#include <cstdint>

namespace pollux {

// Returns 1 if a read from `fd` would not block, 0 if it would, or -1 with errno set.
int IsReadable(int fd);

// As in libibverbs and librdmacm, a blocked read of the device continues after a signal handler
// that was installed with SA_RESTART (signal(3) does that, too), and fails with EINTR after any
// other (signal(7)). poll(2) returns in both cases, so threads wait here instead. Thread-safe.
class FdWaiter {
 public:
  // Call it after making the descriptor readable.
  void Ring() {
    // A thread that is about to sleep sets kAsleep, and then checks the descriptor once more.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if ((rung_.load(std::memory_order_relaxed) & kAsleep) != 0) WakeAll();
  }
  // Returns 0 once `fd` is readable (another thread may read it first); EAGAIN if it is
  // non-blocking and not readable; EINTR; or the error of poll(2). The thread may be cancelled
  // while it waits.
  int AwaitReadable(int fd);

 private:
  static constexpr uint32_t kAsleep = 1;  // a thread may be asleep

  void WakeAll();

  // kAsleep, and above it the number of wake-ups. The kernel compares it before a thread sleeps, so
  // that a wake-up just before that is not missed.
  std::atomic<uint32_t> rung_{0};
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_FD_WAITER_H_
