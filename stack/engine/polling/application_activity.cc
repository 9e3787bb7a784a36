#include "stack/engine/polling/application_activity.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace pollux::engine {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void ApplicationActivity::Nap(uint64_t ns) {
  const uint32_t nap = KindOf(ns);
  napping_.store(nap);
  if (!ExpectsSleep()) Wait(ns, nap);
  napping_.store(0);
}

void ApplicationActivity::Sleep(uint64_t ns, uint32_t announced) {
  const uint32_t nap = KindOf(ns);
  napping_.store(nap);
  if (announced_.load() == announced) Wait(ns, nap);
  napping_.store(0);
}

void ApplicationActivity::Wait(uint64_t ns, uint32_t nap) {
  const timespec duration{0, static_cast<int64_t>(ns)};
  syscall(SYS_futex, &napping_, FUTEX_WAIT_PRIVATE, nap, &duration, nullptr, 0);
}

void ApplicationActivity::WakeUp() {
  if (napping_.exchange(0) != 0) {
    syscall(SYS_futex, &napping_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

}  // namespace pollux::engine
