// Polls two workers for one measurement and takes its time.
#ifndef POLLUX_TESTS_BENCH_TIMED_RUN_H_
#define POLLUX_TESTS_BENCH_TIMED_RUN_H_

#include <cstdint>

#include "absl/types/span.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/polling/clock.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::bench {

// The threads of a measurement: two, one per end; or only the caller's, which polls both ends in
// turn in virtual time.
enum class Threads : uint8_t { kOne, kTwo };

// The poller at the near end, which marks the begin and the end of the measurement during its
// turns, so that, as with the bare device (device_load.h), no thread starts or ends in between.
class TimedPoller : public engine::Poller {
 public:
  bool finished() const { return end_ns_ != 0; }
  // Valid after it has finished.
  uint64_t elapsed_ns() const { return end_ns_ - start_ns_; }
  double PerSecond(uint64_t count) const {
    return static_cast<double>(count) * 1e9 / static_cast<double>(elapsed_ns());
  }

 protected:
  bool begun() const { return start_ns_ != 0; }
  // Only the first call of each counts.
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

// One end: its worker, which nothing else may poll, and the queue pairs to which the measurement
// posts.
struct TimedEnd {
  engine::Worker& worker;
  absl::Span<verbs::QueuePair* const> qps;
};

// Runs `near` on `a` and `far` on `b` until `near` has finished. Then continues to poll both until
// no queue pair has anything outstanding, because unacknowledged packets would be sent again during
// the next measurement although its wire lost nothing. A finished poller must not post any more,
// and `far` must post only in reply to messages. Two threads run on the caller's CPUs from number
// `first_cpu` on, as in RunOnTwoCores().
void RunTimed(TimedEnd a, TimedPoller& near, TimedEnd b, engine::Poller& far,
              Threads threads = Threads::kTwo, unsigned first_cpu = 0);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_TIMED_RUN_H_
