// How long a loop has waited for what others do.
#ifndef POLLUX_COMPAT_PROCESS_STALL_TOLERANT_STOPWATCH_H_
#define POLLUX_COMPAT_PROCESS_STALL_TOLERANT_STOPWATCH_H_

#include <algorithm>
#include <cstdint>

namespace pollux::compat {

// Of the time between two looks no more is counted than a machine that runs lets pass: one that has
// stood still (a stopped process, a paused virtual machine) has given those who are waited for no
// time at all. Of the thread that waits.
class StallTolerantStopwatch {
 public:
  static constexpr uint64_t kMaxOfALookNs = 20'000'000;

  explicit StallTolerantStopwatch(uint64_t now_ns) : looked_ns_(now_ns) {}
  // How long since the beginning, `now_ns` being the time of this look.
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
