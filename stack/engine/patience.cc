#include "stack/engine/patience.h"

#include <emmintrin.h>
#include <sched.h>
#include <time.h>

#include "stack/engine/no_cancellation.h"

namespace pollux::engine {
namespace {

constexpr timespec kNap{0, 50'000};

}  // namespace

void Patience::Wait() {
  if (!slept()) ++waits_;
  if (waits_ <= kRelaxedWaits) {
    _mm_pause();
  } else if (!slept()) {
    sched_yield();
  } else {
    const NoCancellation no_cancellation;
    nanosleep(&kNap, nullptr);
  }
}

}  // namespace pollux::engine
