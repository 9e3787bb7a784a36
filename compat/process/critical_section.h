// From the call of a program that begins something to the one that ends it: one thread at a time.
#ifndef POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_
#define POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_

#include <atomic>
#include <cstdint>

#include "compat/process/thread_registry.h"

namespace pollux::compat {

// Held while the program's own code runs. So the thread in it may be cancelled there, and who waits
// takes it over from a thread that is no more; in a child of the process those are all but the one
// that has forked, which stays in it. As with the providers of adapters, it is not recursive, any
// thread may leave it (a coroutine goes on wherever it is woken), and leaving it when nobody is in
// it does nothing: some end what had not begun (pyverbs, after an empty ibv_start_poll). One
// exchange and one store while no other thread is in it.
class CriticalSection {
 public:
  void Enter() {
    uint64_t nobody = kNobody;
    const uint64_t self = ThreadRegistry::Own();
    if (!holder_.compare_exchange_strong(nobody, self, std::memory_order_acq_rel)) {
      EnterSlowly(self);
    }
  }
  void Leave() { holder_.store(kNobody, std::memory_order_release); }

 private:
  static constexpr uint64_t kNobody = 0;

  void EnterSlowly(uint64_t self);

  std::atomic<uint64_t> holder_{kNobody};
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_CRITICAL_SECTION_H_
