#include "stack/engine/loop/application_activity.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace pollux::engine {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void ApplicationActivity::Nap(uint64_t ns) {
  napping_.store(1);
  if (!ExpectsSleep()) Wait(ns);
  napping_.store(0);
}

void ApplicationActivity::Sleep(uint64_t ns) {
  napping_.store(1);
  Wait(ns);
  napping_.store(0);
}

void ApplicationActivity::Wait(uint64_t ns) {
  const timespec duration{0, static_cast<int64_t>(ns)};
  syscall(SYS_futex, &napping_, FUTEX_WAIT_PRIVATE, 1, &duration, nullptr, 0);
}

void ApplicationActivity::WakeUp() {
  if (napping_.exchange(0) != 0) {
    syscall(SYS_futex, &napping_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

}  // namespace pollux::engine
