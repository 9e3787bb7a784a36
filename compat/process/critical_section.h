// A critical section that one call of the program enters and a later one leaves.
#ifndef POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_
#define POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_

#include <atomic>

namespace pollux::compat {

// A lock that is held while the program's own code runs. As in the providers of adapters, it is not
// recursive, and a thread that ends while it holds the lock keeps it. Any thread may unlock it,
// since a coroutine may continue on another thread. Unlocking it while it is not locked has no
// effect: pyverbs calls ibv_end_poll() after an ibv_start_poll() that found nothing. Without
// contention it costs one exchange and one store.
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
