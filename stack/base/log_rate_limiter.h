// Limits how many log entries of one kind are written per minute, so that a peer that causes them
// cannot fill a disk.
#ifndef POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_
#define POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_

#include <cstdint>
#include <utility>

namespace pollux {

// Allows `per_minute` entries per minute and counts those it suppresses. Not thread-safe: one
// thread owns it.
class LogRateLimiter {
 public:
  explicit LogRateLimiter(uint32_t per_minute) : per_minute_(per_minute) {}

  // Whether an entry may be written at this time.
  bool Take(uint64_t now_ns) {
    if (now_ns - minute_ns_ >= kMinuteNs) {
      minute_ns_ = now_ns;
      taken_ = 0;
    }
    if (taken_ < per_minute_) {
      ++taken_;
      return true;
    }
    ++left_out_;
    return false;
  }
  // The number of entries suppressed since the last call.
  uint64_t TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  static constexpr uint64_t kMinuteNs = 60'000'000'000;
  uint32_t per_minute_;
  uint64_t minute_ns_ = 0;
  uint32_t taken_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_
