#include "compat/runtime/pace.h"

#include <algorithm>
#include <utility>

namespace pollux::compat {

uint64_t Pace::SilenceOfAbandoned() const {
  const bool often = short_naps_left_ > 0 || idle_ == engine::Idle::kSpin;
  return often ? kBetweenPollsNs : kAbandonedNs;
}

bool Pace::Due(uint64_t now_ns, uint64_t driven_ns, bool sleep_expected) {
  const bool napped = std::exchange(napped_, false);
  const uint64_t at_ns = napped ? std::min(now_ns, look_ns_ + nap_ns_) : now_ns;
  silent_ns_ = at_ns > driven_ns ? at_ns - driven_ns : 0;
  look_ns_ = now_ns;
  sleep_expected_ = sleep_expected;
  called_lately_ = silent_ns_ < kMomentNs;
  // It cannot call while this thread has its CPU.
  waits_ = napped ? silent_ns_ >= kWaitsNs : waits_ || silent_ns_ > kAbandonedNs;
  return sleep_expected || silent_ns_ > SilenceOfAbandoned();
}

Pace::Pause Pace::WithoutTurn() {
  idle_turns_ = 0;
  if (sleep_expected_) return Pause::kYield;
  if (idle_ == engine::Idle::kSpin) return Pause::kRelax;
  if (polling_looks_ < kPollingLooks) ++polling_looks_;
  return Nap();
}

Pace::Pause Pace::AfterTurn(const Found& found) {
  const bool may_nap = !sleep_expected_ && idle_ != engine::Idle::kSpin;
  const bool shares_cpu = called_lately_ && may_nap;
  const bool loses_cpu = shared_naps_left_ > 0 && may_nap;
  polling_looks_ = 0;
  packets_ += found.packets;
  if (found.work) {
    idle_turns_ = 0;
    worked_ = true;
    sleep_length_.Reset();
    if ((shares_cpu || loses_cpu) && waits_) short_naps_left_ = kShortNaps;
    return Pause::kNone;
  }
  ++idle_turns_;
  if (sleep_expected_) return AfterIdleTurnForSleeper();
  const bool idles = yield_after_ != 0 && idle_turns_ > yield_after_;
  const bool more_to_come = packets_ >= kStreamPackets && idle_turns_ < kStreamTurns;
  if ((shares_cpu && !more_to_come) || idle_turns_ > kSpinTurns ||
      (idles && (idle_ == engine::Idle::kSleep || loses_cpu))) {
    return Nap();
  }
  return idles && idle_ == engine::Idle::kYield ? Pause::kYield : Pause::kNone;
}

Pace::Pause Pace::AfterIdleTurnForSleeper() {
  if (yield_after_ == 0 || idle_turns_ <= yield_after_) return Pause::kNone;
  switch (idle_) {
    case engine::Idle::kSpin:
      return Pause::kNone;
    case engine::Idle::kYield:
      return Pause::kYield;
    case engine::Idle::kSleep:
      break;
  }
  nap_ns_ = sleep_length_.Next(look_ns_, UINT64_MAX);
  return Pause::kSleep;
}

Pace::Pause Pace::Nap() {
  if (shared_naps_left_ > 0) --shared_naps_left_;
  nap_ns_ = polling_looks_ < kPollingLooks ? kNapNs : kLongNapNs;
  if (short_naps_left_ > 0) {
    if (!worked_) --short_naps_left_;
    nap_ns_ = kShortNapNs;
  }
  packets_ = 0;
  worked_ = false;
  napped_ = true;
  return Pause::kNap;
}

}  // namespace pollux::compat
