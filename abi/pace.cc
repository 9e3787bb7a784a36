#include "abi/pace.h"

namespace pollux::abi {

uint64_t Pace::SilenceOfAbandoned() const {
  if (idle_ == engine::Idle::kSpin) return kBetweenPollsNs;
  return short_naps_left_ > 0 ? kShortNapNs : kAbandonedNs;
}

bool Pace::Due(uint64_t now_ns, uint64_t driven_ns, bool sleep_expected) {
  const uint64_t silent_ns = now_ns > driven_ns ? now_ns - driven_ns : 0;
  sleep_expected_ = sleep_expected;
  called_lately_ = silent_ns < kMomentNs;
  return sleep_expected || silent_ns > SilenceOfAbandoned();
}

Pace::Pause Pace::WithoutTurn() {
  idle_turns_ = 0;
  if (sleep_expected_) return Pause::kYield;
  if (idle_ == engine::Idle::kSpin) return Pause::kRelax;
  if (polling_looks_ < kPollingLooks) ++polling_looks_;
  return Nap();
}

Pace::Pause Pace::AfterTurn(const Found& found) {
  const bool shares_cpu = called_lately_ && !sleep_expected_ && idle_ != engine::Idle::kSpin;
  polling_looks_ = 0;
  packets_ += found.packets;
  if (found.work) {
    idle_turns_ = 0;
    if (shares_cpu) short_naps_left_ = kShortNaps;
    return Pause::kNone;
  }
  ++idle_turns_;
  const bool idles = yield_after_ != 0 && idle_turns_ > yield_after_;
  const bool more_to_come = packets_ >= kStreamPackets && idle_turns_ < kStreamTurns;
  if ((shares_cpu && !more_to_come) || idle_turns_ > kSpinTurns ||
      (idles && idle_ == engine::Idle::kSleep)) {
    return Nap();
  }
  return idles && idle_ == engine::Idle::kYield ? Pause::kYield : Pause::kNone;
}

Pace::Pause Pace::Nap() {
  packets_ = 0;
  nap_ns_ = polling_looks_ < kPollingLooks ? kNapNs : kLongNapNs;
  if (short_naps_left_ > 0) {
    --short_naps_left_;
    nap_ns_ = kShortNapNs;
  }
  return Pause::kNap;
}

}  // namespace pollux::abi
