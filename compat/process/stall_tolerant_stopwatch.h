// Measures how long a loop has waited for other processes or threads.
#ifndef POLLUX_COMPAT_PROCESS_STALL_TOLERANT_STOPWATCH_H_
#define POLLUX_COMPAT_PROCESS_STALL_TOLERANT_STOPWATCH_H_

#include <algorithm>
#include <cstdint>

namespace pollux::compat {

// Counts at most kMaxOfALookNs between two looks, as much as can pass on a running machine: while
// the process or the virtual machine was stopped, the processes or threads for which the loop waits
// could not make progress. Used by the waiting thread.
class StallTolerantStopwatch {
 public:
  static constexpr uint64_t kMaxOfALookNs = 20'000'000;

  explicit StallTolerantStopwatch(uint64_t now_ns) : looked_ns_(now_ns) {}
  // Returns the time since construction; `now_ns` is the current time.
  uint64_t Ns(uint64_t now_ns) {
    waited_ns_ += std::min(now_ns - looked_ns_, kMaxOfALookNs);
    looked_ns_ = now_ns;
    return waited_ns_;
  }

 private:
  uint64_t looked_ns_;
  uint64_t waited_ns_ = 0;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_STALL_TOLERANT_STOPWATCH_H_
