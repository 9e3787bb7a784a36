#include "stack/engine/ownership.h"

#include <emmintrin.h>
#include <rte_lcore.h>
#include <sched.h>

namespace pollux::engine {
namespace {

// A turn of the loop is shorter than this many looks at the word; who holds it for longer has lost
// its CPU.
constexpr int kLooksBeforeYield = 256;

}  // namespace

void Ownership::AcquireSlowly() {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  for (int looks = 0;
       held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_acquire);) {
    if (++looks < kLooksBeforeYield) {
      _mm_pause();
    } else {
      sched_yield();
    }
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void Ownership::Enter() {
  owner_.store(pthread_self(), std::memory_order_relaxed);
  lcore_place_ = &RTE_PER_LCORE(_lcore_id);
  lcore_of_thread_ = *lcore_place_;
  *lcore_place_ = lcore_;
}

}  // namespace pollux::engine
