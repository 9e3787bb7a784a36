#include "compat/process/critical_section.h"

#include <cerrno>

#include "stack/engine/polling/spin_then_sleep_backoff.h"

namespace pollux::compat {

void CriticalSection::EnterSlowly() {
  const int error = errno;
  engine::SpinThenSleepBackoff backoff;
  while (held_.exchange(true, std::memory_order_acquire)) backoff.Wait();
  errno = error;
}

}  // namespace pollux::compat
