#include "stack/transport/congestion/reaction_point.h"

#include <algorithm>
#include <cmath>

namespace pollux::transport {
namespace {

constexpr uint64_t kNsPerUs = 1000;
constexpr double kAlphaUnit = 1024;
// Increases that one call makes up for, after a pause: more than lead from 1 Gb/s to 40 by the
// defaults.
constexpr int kMaxCatchUp = 1024;

// Of `bytes` at `mbps`.
double TransferNs(double bytes, double mbps) { return bytes * 8000 / mbps; }

}  // namespace

ReactionPoint::ReactionPoint(const DcqcnParameters* parameters)
    : parameters_(parameters),
      max_rate_(parameters->rpg_max_rate != 0 ? parameters->rpg_max_rate : kUnknownSpeed) {}

void ReactionPoint::OnCnp(uint64_t now_ns) {
  Advance(now_ns);
  cnp_since_alpha_ = true;
  if (!limited_) {
    Limit(now_ns);
    return;
  }
  // One sooner than that tells of the same congestion as the last.
  if (now_ns - decrease_at_ns_ < parameters_->rate_reduce_monitor_period * kNsPerUs) return;
  Decrease(now_ns);
}

void ReactionPoint::Limit(uint64_t now_ns) {
  limited_ = true;
  alpha_ = parameters_->initial_alpha_value / kAlphaUnit;
  alpha_at_ns_ = next_send_ns_ = now_ns;
  rate_ = target_ = max_rate_;
  Decrease(now_ns);
  if (parameters_->rate_to_set_on_first_cnp != 0) {
    rate_ = target_ = std::min<double>(parameters_->rate_to_set_on_first_cnp, max_rate_);
  }
}

void ReactionPoint::Decrease(uint64_t now_ns) {
  const bool increased = time_stage_ + byte_stage_ > 0;
  if (parameters_->clamp_tgt_rate != 0 || increased) target_ = rate_;
  const double share = alpha_ * kAlphaUnit / static_cast<double>(1u << parameters_->rpg_gd);
  const double left = std::max(1 - share, parameters_->rpg_min_dec_fac / 100.0);
  rate_ = std::max<double>(rate_ * left, std::min<double>(parameters_->rpg_min_rate, max_rate_));
  decrease_at_ns_ = increase_at_ns_ = now_ns;
  bytes_ = 0;
  time_stage_ = byte_stage_ = 0;
}

void ReactionPoint::Increase() {
  const uint32_t most = std::max(time_stage_, byte_stage_);
  const uint32_t least = std::min(time_stage_, byte_stage_);
  const uint32_t threshold = parameters_->rpg_threshold;
  if (least > threshold) {
    target_ += static_cast<double>(least - threshold) * parameters_->rpg_hai_rate;
  } else if (most > threshold) {
    target_ += parameters_->rpg_ai_rate;
  }
  target_ = std::min(target_, max_rate_);
  rate_ = (rate_ + target_) / 2;
  if (rate_ + parameters_->rpg_ai_rate >= max_rate_) {
    limited_ = false;
    time_stage_ = byte_stage_ = 0;
  }
}

void ReactionPoint::AdvanceAlpha(uint64_t now_ns) {
  const uint64_t period_ns = parameters_->dce_tcp_rtt * kNsPerUs;
  const uint64_t periods = (now_ns - alpha_at_ns_) / period_ns;
  if (periods == 0) return;
  const double weight = parameters_->dce_tcp_g / kAlphaUnit;
  alpha_ *= periods == 1 ? weight : std::pow(weight, static_cast<double>(periods));
  // CNPs count in the first of the periods: each call that brings one comes here first.
  if (cnp_since_alpha_) {
    alpha_ +=
        (1 - weight) * (periods == 1 ? 1 : std::pow(weight, static_cast<double>(periods - 1)));
  }
  cnp_since_alpha_ = false;
  alpha_at_ns_ += periods * period_ns;
}

void ReactionPoint::Advance(uint64_t now_ns) {
  if (!limited_) return;
  AdvanceAlpha(now_ns);
  const uint64_t period_ns = parameters_->rpg_time_reset * kNsPerUs;
  for (int i = 0; limited_ && now_ns - increase_at_ns_ >= period_ns; ++i) {
    if (i == kMaxCatchUp) {
      increase_at_ns_ = now_ns;
      return;
    }
    increase_at_ns_ += period_ns;
    ++time_stage_;
    Increase();
  }
}

int ReactionPoint::Allowed(uint64_t now_ns, uint32_t frame_bytes, int most) {
  Advance(now_ns);
  if (!limited_) return most;
  if (now_ns < next_send_ns_) return 0;
  next_send_ns_ = std::max(next_send_ns_, now_ns - std::min(now_ns, kBurstNs));
  const double frames =
      static_cast<double>(now_ns - next_send_ns_) / TransferNs(frame_bytes, rate_);
  return frames + 1 < most ? static_cast<int>(frames) + 1 : most;
}

void ReactionPoint::OnSent(uint64_t bytes) {
  if (!limited_ || bytes == 0) return;
  next_send_ns_ += std::max<uint64_t>(
      1, static_cast<uint64_t>(std::llround(TransferNs(static_cast<double>(bytes), rate_))));
  if (parameters_->rpg_byte_reset == 0) return;
  bytes_ += bytes;
  while (limited_ && bytes_ >= parameters_->rpg_byte_reset) {
    bytes_ -= parameters_->rpg_byte_reset;
    ++byte_stage_;
    Increase();
  }
}

uint64_t ReactionPoint::interval_ns(uint32_t frame_bytes) const {
  return limited_ ? static_cast<uint64_t>(TransferNs(frame_bytes, rate_)) : 0;
}

uint64_t ReactionPoint::retry_ns(uint64_t now_ns) const {
  return std::min(next_send_ns_, now_ns + parameters_->rpg_time_reset * kNsPerUs);
}

}  // namespace pollux::transport
