// From the call of a program that begins something to the one that ends it: one thread at a time.
#ifndef POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_
#define POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_

#include <atomic>

namespace pollux::compat {

// A lock that is held while the program's own code runs. As with the providers of adapters, it is
// not recursive, and a thread that ends while it holds the lock keeps it. Any thread may unlock it,
// since a coroutine may continue on another thread. Unlocking it while it is free has no effect:
// pyverbs calls ibv_end_poll after an empty ibv_start_poll. Without contention it costs one
// exchange and one store.
class CriticalSection {
 public:
  void Enter() {
    if (held_.exchange(true, std::memory_order_acquire)) EnterSlowly();
  }
  void Leave() { held_.store(false, std::memory_order_release); }

 private:
  void EnterSlowly();

  std::atomic<bool> held_{false};
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_
