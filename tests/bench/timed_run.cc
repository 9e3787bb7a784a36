#include "tests/bench/timed_run.h"

#include <atomic>

#include "tests/bench/core_pair.h"
#include "tests/bench/one_thread.h"

namespace pollux::bench {
namespace {

// Leaves those that still have something under way. None gets more meanwhile.
bool Settled(absl::Span<verbs::QueuePair* const>& qps) {
  while (!qps.empty() && qps.front()->sq_head() == qps.front()->sq_tail()) qps.remove_prefix(1);
  return qps.empty();
}

// By the near end first: once that has all its acknowledgements, the far one has posted all that
// it answers with.
void RunOnTwo(TimedEnd& a, const TimedPoller& near, TimedEnd& b, unsigned first_cpu) {
  const engine::Clock clock;
  // Not in the line of what either end writes while it is measured.
  struct alignas(128) {
    std::atomic<bool> near{false}, far{false};
  } settled;
  RunOnTwoCores(
      [&] {
        while (!near.finished() || !Settled(a.qps)) a.worker.Poll(clock.NowNs());
        settled.near.store(true, std::memory_order_release);
        while (!settled.far.load(std::memory_order_acquire)) a.worker.Poll(clock.NowNs());
      },
      [&] {
        while (!settled.near.load(std::memory_order_acquire) || !Settled(b.qps)) {
          b.worker.Poll(clock.NowNs());
        }
        settled.far.store(true, std::memory_order_release);
      },
      first_cpu);
}

}  // namespace

void RunTimed(TimedEnd a, TimedPoller& near, TimedEnd b, engine::Poller& far, Threads threads,
              unsigned first_cpu) {
  a.worker.AddPoller(&near);
  b.worker.AddPoller(&far);
  if (threads == Threads::kTwo) {
    RunOnTwo(a, near, b, first_cpu);
  } else {
    TakeTurns(a.worker, b.worker,
              [&] { return near.finished() && Settled(a.qps) && Settled(b.qps); });
  }
  a.worker.RemovePoller(&near);
  b.worker.RemovePoller(&far);
}

}  // namespace pollux::bench
