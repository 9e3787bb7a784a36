// Estimates how long a response takes, by timing one PSN at a time.
#ifndef POLLUX_STACK_TRANSPORT_RC_RTT_ESTIMATOR_H_
#define POLLUX_STACK_TRANSPORT_RC_RTT_ESTIMATOR_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "stack/base/types.h"

namespace pollux::transport {

// Smoothed as in RFC 6298 section 2.
class RttEstimator {
 public:
  void Reset() { *this = RttEstimator(); }
  // Begins to time `psn`, unless another PSN is being timed.
  void Start(Psn psn, uint64_t now_ns) {
    if (started_ns_ != kNever) return;
    psn_ = psn;
    sent_again_ = false;
    started_ns_ = now_ns;
  }
  void Cancel() { started_ns_ = kNever; }
  // After a retransmission, the first response to [begin, end) may belong to either transmission
  // (Karn's algorithm). If a second one comes, the first one most likely belonged to the first
  // transmission.
  void SentAgain(Psn begin, Psn end) {
    if (started_ns_ != kNever && !Before(psn_, begin) && Before(psn_, end)) sent_again_ = true;
  }
  // Everything before `una` has been answered.
  void Answered(Psn una, uint64_t now_ns) {
    if (started_ns_ == kNever || !Before(psn_, una)) return;
    const uint64_t sample = now_ns - started_ns_;
    started_ns_ = kNever;
    if (sent_again_) [[unlikely]] {
      sent_again_ = false;
      ambiguous_psn_ = psn_;
      ambiguous_ns_ = sample;
    } else {
      Add(sample);
    }
  }
  // A further response came, up to `psn`. If the path has become slower than the wait for
  // retransmissions, everything is sent again, and nothing else measures the round trip.
  void AnsweredAgain(Psn psn) {
    if (ambiguous_ns_ == 0 || Before(psn, ambiguous_psn_)) return;
    // A peer that stood still once must not make the next losses last as long.
    const uint64_t most = 4 * std::max(most_ns(), kUsualNs);
    Add(smoothed_ns_ == 0 ? ambiguous_ns_ : std::min(ambiguous_ns_, most));
  }

  // 0 until measured.
  uint64_t smoothed_ns() const { return smoothed_ns_; }
  // A time that responses rarely exceed.
  uint64_t most_ns() const { return smoothed_ns_ + 4 * deviation_ns_; }

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  static constexpr uint64_t kUsualNs = 500'000;  // a network's round trip is hardly longer

  void Add(uint64_t sample) {
    ambiguous_ns_ = 0;
    if (smoothed_ns_ == 0) {
      smoothed_ns_ = std::max<uint64_t>(sample, 1);
      deviation_ns_ = sample / 2;
      return;
    }
    const uint64_t off = sample > smoothed_ns_ ? sample - smoothed_ns_ : smoothed_ns_ - sample;
    deviation_ns_ += (off >> 2) - (deviation_ns_ >> 2);
    smoothed_ns_ += (sample >> 3) - (smoothed_ns_ >> 3);
  }

  uint64_t smoothed_ns_ = 0;
  uint64_t deviation_ns_ = 0;  // mean
  Psn psn_;
  bool sent_again_ = false;
  uint64_t started_ns_ = kNever;
  Psn ambiguous_psn_;
  uint64_t ambiguous_ns_ = 0;  // how long its first response took; 0 for none
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RTT_ESTIMATOR_H_
