// Who asks a process to end, and who insists.
#ifndef POLLUX_STACK_BASE_REPEATED_SIGNAL_FILTER_H_
#define POLLUX_STACK_BASE_REPEATED_SIGNAL_FILTER_H_

#include <atomic>
#include <cstdint>

namespace pollux {

// One request may come as several signals: timeout(1) sends its own to the process and then to its
// group, and passes on what the terminal has sent to all of that. For signal handlers, on any
// thread.
class RepeatedSignalFilter {
 public:
  static constexpr int64_t kAtOnceMs = 500;  // as long as those of one request may take

  // Whether the signal that comes at `now_ms`, of a clock that goes forward, is another request
  // than the first.
  bool IsRepeated(int64_t now_ms) {
    int64_t first_ms = kNone;
    return !first_ms_.compare_exchange_strong(first_ms, now_ms) && now_ms - first_ms >= kAtOnceMs;
  }

 private:
  static constexpr int64_t kNone = -1;
  std::atomic<int64_t> first_ms_{kNone};
  static_assert(std::atomic<int64_t>::is_always_lock_free);
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_REPEATED_SIGNAL_FILTER_H_
