#include "stack/engine/polling/ownership.h"

#include <rte_lcore.h>

#include "stack/engine/polling/spin_then_sleep_backoff.h"

namespace pollux::engine {

void Ownership::AcquireSlowly() {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  SpinThenSleepBackoff backoff;
  while (held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_acquire)) {
    backoff.Wait();
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
