#include "stack/engine/polling/spin_then_sleep_backoff.h"

#include <emmintrin.h>
#include <sched.h>
#include <time.h>

#include "stack/engine/polling/scoped_cancellation_disable.h"

namespace pollux::engine {
namespace {

constexpr timespec kNap{0, 50'000};

uint64_t MonotonicNs() {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void SpinThenSleepBackoff::Wait() {
  if (!slept()) ++waits_;
  if (waits_ <= kRelaxedWaits) {
    _mm_pause();
  } else if (!slept()) {
    Yield();
  } else {
    const ScopedCancellationDisable no_cancel;
    nanosleep(&kNap, nullptr);
  }
}

void SpinThenSleepBackoff::Yield() {
  const uint64_t now_ns = MonotonicNs();
  if (first_yield_ns_ == 0) first_yield_ns_ = now_ns;
  // The next wait is a sleep.
  if (now_ns - first_yield_ns_ >= kYieldingNs) waits_ = kRelaxedWaits + kYields;
  sched_yield();
}

}  // namespace pollux::engine
