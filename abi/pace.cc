#include "abi/pace.h"

namespace pollux::abi {

bool Pace::Due(uint64_t now_ns, uint64_t driven_ns, bool sleep_expected) {
  const uint64_t silent_ns = now_ns > driven_ns ? now_ns - driven_ns : 0;
  sleep_expected_ = sleep_expected;
  called_lately_ = silent_ns < kMomentNs;
  return sleep_expected || silent_ns > (short_naps_left_ > 0 ? kShortNapNs : kAbandonedNs);
}

Pace::Pause Pace::WithoutTurn() {
  idle_turns_ = 0;
  return sleep_expected_ ? Pause::kYield : Nap();
}

Pace::Pause Pace::AfterTurn(bool busy) {
  const bool shares_cpu = called_lately_ && !sleep_expected_ && idle_ != engine::Idle::kSpin;
  if (busy) {
    idle_turns_ = 0;
    if (shares_cpu) short_naps_left_ = kShortNaps;
    return Pause::kNone;
  }
  ++idle_turns_;
  const bool idles = yield_after_ != 0 && idle_turns_ > yield_after_;
  if (shares_cpu || idle_turns_ > kSpinTurns || (idles && idle_ == engine::Idle::kSleep)) {
    return Nap();
  }
  return idles && idle_ == engine::Idle::kYield ? Pause::kYield : Pause::kNone;
}

Pace::Pause Pace::Nap() {
  if (short_naps_left_ == 0) return Pause::kNap;
  --short_naps_left_;
  return Pause::kShortNap;
}

}  // namespace pollux::abi
