// How long a polling thread sleeps when there is nothing to do. ProgressPolicy decides whether it
// sleeps.
#ifndef POLLUX_STACK_ENGINE_POLLING_SLEEP_LENGTH_H_
#define POLLUX_STACK_ENGINE_POLLING_SLEEP_LENGTH_H_

#include <algorithm>
#include <cstdint>

namespace pollux::engine {

// How long to sleep between two polls. Each sleep is twice as long as the one before, from kMinNs
// up to kMaxNs. When the sleeps add up to kIdleNs, the maximum becomes kMaxIdleNs. No sleep extends
// beyond the next timer.
class SleepLength {
 public:
  static constexpr uint64_t kMinNs = 20'000;
  // Local ACK timeouts and RNR timers have this order of magnitude, so a peer does not mistake the
  // delay for a loss.
  static constexpr uint64_t kMaxNs = 1'000'000;
  // A wake-up takes 18 to 45 us of CPU in virtual machines, and an idle thread is to take at most
  // 1 % of a CPU. The first packet after kIdleNs without work may wait this long.
  static constexpr uint64_t kMaxIdleNs = 5'000'000;
  static constexpr uint64_t kIdleNs = 1'000'000'000;

  // Call it after a poll that found work.
  void Reset() {
    next_ns_ = kMinNs;
    slept_ns_ = 0;
  }
  // Returns nanoseconds to sleep; 0: poll at once. `deadline_ns` is when the next timer is due,
  // UINT64_MAX if none is armed.
  uint64_t Next(uint64_t now_ns, uint64_t deadline_ns) {
    if (deadline_ns <= now_ns) return 0;
    const uint64_t length_ns = std::min(next_ns_, deadline_ns - now_ns);
    slept_ns_ += length_ns;
    next_ns_ = std::min(2 * next_ns_, slept_ns_ < kIdleNs ? kMaxNs : kMaxIdleNs);
    return length_ns;
  }

 private:
  uint64_t next_ns_ = kMinNs;
  uint64_t slept_ns_ = 0;  // since the last Reset()
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_SLEEP_LENGTH_H_
