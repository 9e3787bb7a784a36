#include "compat/process/fork_gate.h"

#include <sched.h>
#include <time.h>

#include "compat/process/stall_tolerant_stopwatch.h"

namespace pollux::compat {
namespace {

// How many of the gate's mutexes this thread holds: it goes on to the next while another waits to
// fork.
thread_local uint32_t held = 0;

uint64_t NowNs() {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void ForkGate::Enter() {
  if (held++ != 0) return;
  // Each side says what it does before it looks at what the other one does.
  while (inside_.fetch_add(1), closed_.load()) {
    inside_.fetch_sub(1);
    closed_.wait(true);
  }
}

void ForkGate::Leave() {
  if (--held == 0) inside_.fetch_sub(1);
}

void ForkGate::Close(uint64_t most_ns) {
  StallTolerantStopwatch stopwatch(NowNs());
  const int32_t own = held != 0 ? 1 : 0;
  closed_.store(true);
  while (inside_.load() != own && stopwatch.Ns(NowNs()) < most_ns) sched_yield();
}

void ForkGate::OpenInParent() {
  closed_.store(false);
  closed_.notify_all();
}

void ForkGate::OpenInChild() {
  inside_.store(held != 0 ? 1 : 0);
  closed_.store(false);
}

}  // namespace pollux::compat
