#include "compat/process/critical_section.h"

#include <cerrno>

#include "stack/engine/loop/spin_then_sleep_backoff.h"

namespace pollux::compat {

void CriticalSection::EnterSlowly(uint64_t self) {
  const int error = errno;
  engine::SpinThenSleepBackoff backoff;
  for (uint64_t holder = kNobody;
       !holder_.compare_exchange_strong(holder, self, std::memory_order_acq_rel);) {
    if (backoff.slept() && !ThreadRegistry::Has(holder)) continue;
    holder = kNobody;
    backoff.Wait();
  }
  errno = error;
}

}  // namespace pollux::compat
