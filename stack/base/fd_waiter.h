// Wakes threads of this process that wait for a descriptor to become readable.
#ifndef POLLUX_STACK_BASE_FD_WAITER_H_
#define POLLUX_STACK_BASE_FD_WAITER_H_

#include <atomic>
#include <cstdint>

namespace pollux {

// Whether a read from `fd` would find something: 1 or 0; else -1, with errno.
int IsReadable(int fd);

// A thread that reads from a device, as libibverbs and librdmacm do, goes on waiting after a
// signal's handler that was installed with SA_RESTART (by signal(3) too), and returns after any
// other: signal(7). After poll(2) it returns in either case, so threads wait here. Any thread.
class FdWaiter {
 public:
  // After what has made the descriptor readable.
  void Ring() {
    // Who is about to sleep has said so, and looks at the descriptor after that.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if ((rung_.load(std::memory_order_relaxed) & kAsleep) != 0) WakeAll();
  }
  // 0 once `fd` is readable, which another thread may undo; EAGAIN when it is not and it is
  // non-blocking; EINTR, or what poll(2) says. The thread may be cancelled while it waits.
  int AwaitReadable(int fd);

 private:
  static constexpr uint32_t kAsleep = 1;  // somebody, perhaps

  void WakeAll();

  // kAsleep, and above it how often somebody was woken: who was about to sleep then does not.
  std::atomic<uint32_t> rung_{0};
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_FD_WAITER_H_
