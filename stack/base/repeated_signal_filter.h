// Tells a second request to end the process from further signals of the first request.
#ifndef POLLUX_STACK_BASE_REPEATED_SIGNAL_FILTER_H_
#define POLLUX_STACK_BASE_REPEATED_SIGNAL_FILTER_H_

#include <atomic>
#include <cstdint>

namespace pollux {

// One request may arrive as several signals: timeout(1) signals the process and then its process
// group, and forwards signals from the terminal to that group. Safe in signal handlers, on any
// thread.
class RepeatedSignalFilter {
 public:
  // Signals this close to the first belong to the same request.
  static constexpr int64_t kAtOnceMs = 500;

  // Whether the signal at `now_ms` belongs to a later request than the first. `now_ms` is read from
  // a monotonic clock.
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
