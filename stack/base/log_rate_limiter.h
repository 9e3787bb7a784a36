// Limits how many log entries of one kind are written per minute, so that a peer that causes them
// cannot fill a disk.
#ifndef POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_
#define POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "stack/base/types.h"

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

// Limits the log entries about peers per minute, per address and in total, so that a peer with many
// entries does not suppress those of others. Not thread-safe: one thread owns it.
class PeerLogRateLimiter {
 public:
  // How many addresses are counted separately: the most recently used ones. An address that was
  // displaced starts with a new limit, within the total.
  static constexpr size_t kAddresses = 64;

  PeerLogRateLimiter(uint32_t of_address_per_minute, uint32_t per_minute)
      : of_address_per_minute_(of_address_per_minute), all_(per_minute) {}

  // Whether an entry about a peer with this address may be written at this time.
  bool Take(const Gid& address, uint64_t now_ns) {
    if (LimiterOf(address, now_ns).Take(now_ns) && all_.Take(now_ns)) return true;
    ++left_out_;
    return false;
  }
  // The number of entries suppressed since the last call.
  uint64_t TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  struct OfAddress {
    Gid address;
    uint64_t used_ns = 0;
    LogRateLimiter limiter;
  };

  LogRateLimiter& LimiterOf(const Gid& address, uint64_t now_ns) {
    auto found = std::ranges::find(addresses_, address, &OfAddress::address);
    if (found == addresses_.end()) {
      OfAddress added{.address = address, .limiter = LogRateLimiter(of_address_per_minute_)};
      if (addresses_.size() < kAddresses) {
        found = addresses_.insert(addresses_.end(), added);
      } else {
        found = std::ranges::min_element(addresses_, {}, &OfAddress::used_ns);
        *found = added;
      }
    }
    found->used_ns = now_ns;
    return found->limiter;
  }

  uint32_t of_address_per_minute_;
  LogRateLimiter all_;
  std::vector<OfAddress> addresses_;
  uint64_t left_out_ = 0;
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_LOG_RATE_LIMITER_H_
