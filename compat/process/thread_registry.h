// Which threads of this process have not ended.
#ifndef POLLUX_COMPAT_PROCESS_THREAD_REGISTRY_H_
#define POLLUX_COMPAT_PROCESS_THREAD_REGISTRY_H_

#include <cstdint>

namespace pollux::compat {

// The kernel gives the number of a thread that has ended to another one, and in a child of the
// process the same thread has another number. These numbers come once, stay with the thread that
// forks, and are asked for without a system call. Any thread.
class ThreadRegistry {
 public:
  // Of the calling thread, which is known from its first call until it ends; never 0. Takes no
  // memory of the heap as a rule; where it must, and there is none, the thread counts as living for
  // good.
  static uint64_t Own() {
    if (own_ == 0) [[unlikely]]
      Appear();
    return own_;
  }
  // In a child: of the thread that has forked, and of those that the child has made.
  static bool Has(uint64_t number);

 private:
  static void Appear();

  static inline constinit thread_local uint64_t own_ = 0;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_THREAD_REGISTRY_H_
