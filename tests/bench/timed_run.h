// Two workers that are polled for one measurement, and its clock.
#ifndef POLLUX_TESTS_BENCH_TIMED_RUN_H_
#define POLLUX_TESTS_BENCH_TIMED_RUN_H_

#include <cstdint>

#include "absl/types/span.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/polling/clock.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::bench {

// Of the measurements: each end on its own, or both in turn on the caller's, in virtual time.
enum class Threads : uint8_t { kOne, kTwo };

// What runs at the near end and says when the measurement begins and when it is over, from inside
// its turns: as with the bare device (device_load.h), no thread starts or ends in between.
class TimedPoller : public engine::Poller {
 public:
  bool finished() const { return end_ns_ != 0; }
  // Of one that has finished.
  uint64_t elapsed_ns() const { return end_ns_ - start_ns_; }
  double PerSecond(uint64_t count) const {
    return static_cast<double>(count) * 1e9 / static_cast<double>(elapsed_ns());
  }

 protected:
  bool begun() const { return start_ns_ != 0; }
  // The first of each counts.
  void Begin() {
    if (!begun()) [[unlikely]]
      start_ns_ = clock_.NowNs();
  }
  void Finish() {
    if (!finished()) end_ns_ = clock_.NowNs();
  }

 private:
  const engine::Clock clock_;
  uint64_t start_ns_ = 0, end_ns_ = 0;
};

// One end: its worker, which nobody else polls, and the queue pairs that are posted to there.
struct TimedEnd {
  engine::Worker& worker;
  absl::Span<verbs::QueuePair* const> qps;
};

// Runs `near` on `a` and `far` on `b` until `near` has finished, and polls both on until nothing is
// under way on any queue pair: what is left unacknowledged would be sent again in the next
// measurement, whose wire lost nothing. What has finished posts no more, and `far` posts only what
// it is sent something for. Two threads run on the caller's CPUs from the `first_cpu`th on, as
// RunOnTwoCores() has it.
void RunTimed(TimedEnd a, TimedPoller& near, TimedEnd b, engine::Poller& far,
              Threads threads = Threads::kTwo, unsigned first_cpu = 0);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_TIMED_RUN_H_
