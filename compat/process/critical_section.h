// From the call of a program that begins something to the one that ends it: one thread at a time.
#ifndef POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_
#define POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_

#include <atomic>

namespace pollux::compat {

// Held while the program's own code runs. As with the providers of adapters, it is not recursive, a
// thread that ends in it keeps it, any thread may leave it (a coroutine goes on wherever it is
// woken), and leaving it when nobody is in it does nothing: some end what had not begun (pyverbs,
// after an empty ibv_start_poll). One exchange and one store while no other thread is in it.
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
