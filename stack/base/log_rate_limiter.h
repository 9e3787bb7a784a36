// How much of one kind a log takes, so that who causes line after line fills no disk.
#ifndef POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_
#define POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_

#include <cstdint>
#include <utility>

namespace pollux {

// So many entries a minute, and the number of those left out. One owner.
class LogRateLimiter {
 public:
  explicit LogRateLimiter(uint32_t per_minute) : per_minute_(per_minute) {}

  // Whether one at this time may be written.
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
  // Left out since the last call.
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
