#include "stack/engine/polling/progress_policy.h"

#include <algorithm>
#include <utility>

namespace pollux::engine {
namespace {

constexpr uint32_t kNapDoublings = 6;
static_assert(ProgressPolicy::kNapNs << kNapDoublings == ProgressPolicy::kMaxIdleNapNs);

}  // namespace

uint64_t ProgressPolicy::SilenceOfAbandoned() const {
  const bool often = short_naps_left_ > 0 || options_.idle == Idle::kSpin;
  return often ? kBetweenPollsNs : kAbandonedNs;
}

bool ProgressPolicy::Due(uint64_t now_ns, uint64_t polled_ns, bool sleep_expected) {
  const bool napped = std::exchange(napped_, false);
  const uint64_t at_ns = napped ? std::min(now_ns, look_ns_ + nap_ns_) : now_ns;
  silent_ns_ = at_ns > polled_ns ? at_ns - polled_ns : 0;
  look_ns_ = now_ns;
  called_lately_ = silent_ns_ < kMomentNs;
  // It cannot call while this thread has its CPU.
  waits_ = napped ? silent_ns_ >= kWaitsNs : waits_ || silent_ns_ > kAbandonedNs;
  const bool abandoned = silent_ns_ > SilenceOfAbandoned();
  sleep_expected_ = sleep_expected || (abandoned && options_.application == Application::kNative);
  return sleep_expected_ || abandoned;
}

ProgressPolicy::Pause ProgressPolicy::WithoutTurn() {
  idle_turns_ = 0;
  idle_naps_ = 0;
  if (sleep_expected_) return Pause::kYield;
  sleep_length_.Reset();  // the program polls
  if (options_.idle == Idle::kSpin) return Pause::kRelax;
  if (options_.application == Application::kUnmodified && polling_looks_ < kPollingLooks) {
    ++polling_looks_;
  }
  return Nap();
}

ProgressPolicy::Pause ProgressPolicy::AfterTurn(const Found& found, uint64_t deadline_ns) {
  const bool may_nap = !sleep_expected_ && options_.idle != Idle::kSpin;
  const bool shares_cpu = called_lately_ && may_nap;
  const bool loses_cpu = shared_naps_left_ > 0 && may_nap;
  polling_looks_ = 0;
  packets_ += found.packets;
  if (found.work) {
    idle_turns_ = 0;
    idle_naps_ = 0;
    worked_ = true;
    sleep_length_.Reset();
    if ((shares_cpu || loses_cpu) && waits_) short_naps_left_ = kShortNaps;
    return Pause::kNone;
  }
  ++idle_turns_;
  if (sleep_expected_) return AfterIdleTurnForSleeper(deadline_ns);
  const bool idles = options_.idle_turns != 0 && idle_turns_ > options_.idle_turns;
  const bool more_to_come = packets_ >= kStreamPackets && idle_turns_ < kStreamTurns;
  if ((shares_cpu && !more_to_come) || idle_turns_ > kSpinTurns ||
      (idles && (options_.idle == Idle::kSleep || loses_cpu))) {
    if (idle_naps_ < UINT32_MAX) ++idle_naps_;
    return Nap();
  }
  return idles && options_.idle == Idle::kYield ? Pause::kYield : Pause::kNone;
}

ProgressPolicy::Pause ProgressPolicy::AfterIdleTurnForSleeper(uint64_t deadline_ns) {
  idle_naps_ = 0;
  if (options_.idle_turns == 0 || idle_turns_ <= options_.idle_turns) return Pause::kNone;
  switch (options_.idle) {
    case Idle::kSpin:
      return Pause::kNone;
    case Idle::kYield:
      return Pause::kYield;
    case Idle::kSleep:
      break;
  }
  nap_ns_ = sleep_length_.Next(look_ns_, deadline_ns);
  return nap_ns_ == 0 ? Pause::kNone : Pause::kSleep;
}

ProgressPolicy::Pause ProgressPolicy::Nap() {
  if (shared_naps_left_ > 0) --shared_naps_left_;
  nap_ns_ = polling_looks_ < kPollingLooks ? kNapNs : kLongNapNs;
  if (short_naps_left_ > 0) {
    if (!worked_) --short_naps_left_;
    nap_ns_ = kShortNapNs;
  } else if (idle_naps_ > kIdleNaps) {
    const uint64_t longest_ns = idle_naps_ > kVeryIdleNaps ? kMaxIdleNapNs : kIdleNapNs;
    nap_ns_ = std::min(kNapNs << std::min(idle_naps_ - kIdleNaps, kNapDoublings), longest_ns);
  }
  packets_ = 0;
  worked_ = false;
  napped_ = true;
  return Pause::kNap;
}

}  // namespace pollux::engine
