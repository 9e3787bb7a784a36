// The option for what a polling thread does when there is nothing to do, and how long it sleeps.
// ProgressPolicy has the whole policy.
#ifndef POLLUX_STACK_ENGINE_POLLING_IDLE_H_
#define POLLUX_STACK_ENGINE_POLLING_IDLE_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace pollux::engine {

enum class Idle : uint8_t {
  kSpin,   // polls on: the least latency, for a CPU of its own
  kYield,  // gives the CPU away to whoever waits for it (sched_yield)
  kSleep,  // sleeps between polls: next to no CPU, and packets wait up to SleepLength::kMaxNs
};

// "spin", "yield" or "sleep". InvalidArgument for anything else.
absl::StatusOr<Idle> ParseIdle(std::string_view text);

// How long a thread that sleeps between polls may sleep this time: longer with each sleep in a row,
// and never beyond the next timer.
class SleepLength {
 public:
  static constexpr uint64_t kMinNs = 20'000;
  // Local ACK timeouts and RNR timers are of the same order: a peer does not take it for a loss.
  static constexpr uint64_t kMaxNs = 1'000'000;

  // There was something to do.
  void Reset() { next_ns_ = kMinNs; }
  // `deadline_ns`: when the next timer is due, UINT64_MAX when none is. 0: poll at once.
  uint64_t Next(uint64_t now_ns, uint64_t deadline_ns) {
    const uint64_t length_ns = next_ns_;
    next_ns_ = std::min(2 * next_ns_, kMaxNs);
    return deadline_ns <= now_ns ? 0 : std::min(length_ns, deadline_ns - now_ns);
  }

 private:
  uint64_t next_ns_ = kMinNs;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_IDLE_H_
