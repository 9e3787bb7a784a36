#include "stack/engine/polling/shared_poll.h"

#include <sched.h>

#include "stack/engine/polling/scoped_cancellation_disable.h"

namespace pollux::engine {

bool SharedPoll::TakeTurn() {
  const uint64_t now_ns = clock_.NowNs();
  const bool worked = poll_(now_ns);
  ownership_->Release();
  activity_.Polled(now_ns);
  return worked;
}

bool SharedPoll::PollUntil(const std::function<bool()>& done, uint64_t longest_ns) {
  if (polled_.exchange(true, std::memory_order_acquire)) return done();
  const ScopedCancellationDisable no_cancel;
  const uint64_t begin_ns = clock_.NowNs();
  uint64_t worked_ns = begin_ns;
  bool is_done = done();
  for (uint32_t idle = 0; !is_done; is_done = done()) {
    ownership_->Acquire();
    const bool worked = TakeTurn();
    const uint64_t now_ns = clock_.NowNs();
    if (worked) {
      idle = 0;
      worked_ns = now_ns;
    } else if (++idle >= kIdleTurns) {
      --idle;
      sched_yield();
    }
    if (now_ns - worked_ns > kSpinNs || now_ns - begin_ns > longest_ns) break;
  }
  polled_.store(false, std::memory_order_release);
  return is_done;
}

void SharedPoll::PollOnce() {
  const ScopedCancellationDisable no_cancel;
  if (ownership_->TryAcquire()) TakeTurn();
}

}  // namespace pollux::engine
