#include "stack/engine/loop/driver.h"

#include <linux/futex.h>
#include <rte_lcore.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stack/engine/loop/scoped_cancellation_disable.h"

namespace pollux::engine {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

bool Driver::IsNeeded() const {
  // Clocks of two CPUs may be a little apart.
  return sleepers_.load() > 0 || clock_.NowNs() > driven_ns_.load() + kAbandonedNs;
}

// What is written before EndNap() is seen here, or this is seen there: both are sequentially
// consistent.
void Driver::Nap() {
  napping_.store(1);
  if (!IsNeeded()) {
    const timespec length{0, kNapNs};
    syscall(SYS_futex, &napping_, FUTEX_WAIT_PRIVATE, 1, &length, nullptr, 0);
  }
  napping_.store(0);
}

void Driver::EndNap() {
  if (napping_.load() == 0) return;
  napping_.store(0);
  syscall(SYS_futex, &napping_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool Driver::TakeTurn(uint64_t now_ns) {
  if (!ownership_.has_value()) [[unlikely]]
    ownership_.emplace(rte_lcore_id());
  if (!IsNeeded()) {
    Nap();
    return false;
  }
  if (ownership_->Wanted() || !ownership_->TryAcquire()) return false;
  const bool worked = poll_(now_ns);
  ownership_->Release();
  return worked;
}

bool Driver::Turn() {
  const uint64_t now_ns = clock_.NowNs();
  const bool worked = poll_(now_ns);
  ownership_->Release();
  driven_ns_.store(now_ns, std::memory_order_relaxed);
  return worked;
}

bool Driver::DriveUntil(const std::function<bool()>& done, uint64_t longest_ns) {
  if (driven_.exchange(true, std::memory_order_acquire)) return done();
  const ScopedCancellationDisable no_cancel;
  const uint64_t begin_ns = clock_.NowNs();
  uint64_t worked_ns = begin_ns;
  bool is_done = done();
  for (uint32_t idle = 0; !is_done; is_done = done()) {
    ownership_->Acquire();
    const bool worked = Turn();
    const uint64_t now_ns = clock_.NowNs();
    if (worked) {
      idle = 0;
      worked_ns = now_ns;
    } else if (++idle >= kIdleTurns) {
      --idle;
      sched_yield();
    }
    if (now_ns - worked_ns > kPatienceNs || now_ns - begin_ns > longest_ns) break;
  }
  driven_.store(false, std::memory_order_release);
  return is_done;
}

void Driver::DriveOnce() {
  const ScopedCancellationDisable no_cancel;
  if (ownership_->TryAcquire()) Turn();
}

void Driver::HandOver() {
  driven_ns_.store(0);
  EndNap();
}

}  // namespace pollux::engine
