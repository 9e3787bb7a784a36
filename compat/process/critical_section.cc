#include "compat/process/critical_section.h"

#include <cerrno>

#include "stack/engine/loop/patience.h"

namespace pollux::compat {

void CriticalSection::EnterSlowly(uint64_t self) {
  const int error = errno;
  engine::Patience patience;
  for (uint64_t holder = kNobody;
       !holder_.compare_exchange_strong(holder, self, std::memory_order_acq_rel);) {
    if (patience.slept() && !LivingThreads::Has(holder)) continue;
    holder = kNobody;
    patience.Wait();
  }
  errno = error;
}

}  // namespace pollux::compat
