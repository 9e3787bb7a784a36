#include "stack/transport/congestion/reaction_point.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pollux::transport {
namespace {

constexpr uint64_t kUs = 1'000;
constexpr uint64_t kStartNs = 5'000'000'000;
constexpr int kMany = 1'000'000;

class ReactionPointTest : public ::testing::Test {
 protected:
  // Lets time pass without a CNP and without traffic.
  void Pass(uint64_t ns) {
    now_ns_ += ns;
    point_.Allowed(now_ns_, 1'000, 1);
  }
  // Sends as fast as it may for `duration_ns`; returns Mb/s.
  double Send(uint64_t duration_ns, uint32_t frame_bytes) {
    const uint64_t end = now_ns_ + duration_ns;
    uint64_t bytes = 0;
    while (now_ns_ < end) {
      const int frames = point_.Allowed(now_ns_, frame_bytes, 32);
      point_.OnSent(static_cast<uint64_t>(frames) * frame_bytes);
      bytes += static_cast<uint64_t>(frames) * frame_bytes;
      now_ns_ = frames > 0 ? now_ns_ + 1'000 : std::max(point_.retry_ns(now_ns_), now_ns_ + 1);
    }
    return static_cast<double>(bytes) * 8000 / static_cast<double>(duration_ns);
  }
  DcqcnParameters parameters_{.rpg_max_rate = 10'000};
  ReactionPoint point_{&parameters_};
  uint64_t now_ns_ = kStartNs;
};

TEST_F(ReactionPointTest, NotLimitedBeforeTheFirstCnp) {
  EXPECT_FALSE(point_.limited());
  point_.OnSent(1'000'000'000);
  EXPECT_EQ(point_.Allowed(now_ns_, 4'000, kMany), kMany);
}

TEST_F(ReactionPointTest, TheFirstCnpHalvesTheRate) {
  point_.OnCnp(now_ns_);
  EXPECT_NEAR(point_.rate_mbps(), 5'000, 10);
  EXPECT_EQ(point_.target_mbps(), 10'000);
  EXPECT_NEAR(point_.alpha(), 1, 0.01);
}

TEST_F(ReactionPointTest, SendingFollowsTheRate) {
  parameters_.rpg_time_reset = 1'000'000;  // no increase
  parameters_.rpg_byte_reset = 0;
  point_.OnCnp(now_ns_);
  for (const uint32_t frame_bytes : {100u, 1'100u, 4'200u}) {
    EXPECT_NEAR(Send(10'000 * kUs, frame_bytes), point_.rate_mbps(), 60) << frame_bytes;
  }
}

TEST_F(ReactionPointTest, TheIntervalOfFramesFollowsTheRate) {
  EXPECT_EQ(point_.interval_ns(1'000), 0u) << "not limited";
  point_.OnCnp(now_ns_);
  EXPECT_NEAR(static_cast<double>(point_.interval_ns(1'000)), 8'000'000 / point_.rate_mbps(), 1);
}

TEST_F(ReactionPointTest, APauseEarnsAtMostOneBurst) {
  parameters_.rpg_time_reset = 1'000'000;
  point_.OnCnp(now_ns_);
  Pass(100'000 * kUs);
  const int frames = point_.Allowed(now_ns_, 1'000, kMany);
  EXPECT_GE(frames, 2);
  EXPECT_LE(frames * 1'000 * 8000 / point_.rate_mbps(), ReactionPoint::kBurstNs + 2'000);
}

TEST_F(ReactionPointTest, FastRecoveryHalvesTheDistanceToTheTarget) {
  point_.OnCnp(now_ns_);
  double missing = point_.target_mbps() - point_.rate_mbps();
  for (uint32_t i = 0; i < parameters_.rpg_threshold; ++i) {
    Pass(parameters_.rpg_time_reset * kUs);
    EXPECT_NEAR(point_.target_mbps() - point_.rate_mbps(), missing / 2, 1e-6);
    missing /= 2;
  }
  EXPECT_EQ(point_.target_mbps(), 10'000);
}

TEST_F(ReactionPointTest, AdditiveIncreaseFollowsFastRecovery) {
  for (int i = 0; i < 3; ++i, now_ns_ += 10 * kUs) point_.OnCnp(now_ns_);
  now_ns_ -= 10 * kUs;
  const double target = point_.target_mbps();
  ASSERT_LT(target, 4'000);
  Pass(parameters_.rpg_threshold * parameters_.rpg_time_reset * kUs);
  EXPECT_EQ(point_.target_mbps(), target);
  for (int i = 1; i <= 5; ++i) {
    Pass(parameters_.rpg_time_reset * kUs);
    EXPECT_NEAR(point_.target_mbps(), target + i * parameters_.rpg_ai_rate, 1e-6);
  }
}

TEST_F(ReactionPointTest, HyperIncreaseNeedsBothTimeAndVolume) {
  parameters_.rpg_byte_reset = 10'000;
  for (int i = 0; i < 6; ++i, now_ns_ += 10 * kUs) point_.OnCnp(now_ns_);
  const uint32_t stages = parameters_.rpg_threshold + 1;
  for (uint32_t i = 0; i < stages; ++i) point_.OnSent(parameters_.rpg_byte_reset);
  const double before = point_.target_mbps();
  Pass(stages * parameters_.rpg_time_reset * kUs);
  // The last of these finds both past the threshold; the others are additive.
  EXPECT_NEAR(
      point_.target_mbps(),
      before + parameters_.rpg_threshold * parameters_.rpg_ai_rate + parameters_.rpg_hai_rate,
      1e-6);
}

TEST_F(ReactionPointTest, VolumeAloneIncreasesTheRate) {
  parameters_.rpg_time_reset = 1'000'000;
  parameters_.rpg_byte_reset = 100'000;
  point_.OnCnp(now_ns_);
  const double rate = point_.rate_mbps();
  point_.OnSent(99'999);
  EXPECT_EQ(point_.rate_mbps(), rate);
  point_.OnSent(1);
  EXPECT_NEAR(point_.rate_mbps(), (rate + 10'000) / 2, 1e-6);
}

TEST_F(ReactionPointTest, AlphaIsUpdatedPerPeriod) {
  parameters_.rpg_time_reset = 1'000'000;  // limited all the time
  point_.OnCnp(now_ns_);
  const double g = 1 - parameters_.dce_tcp_g / 1024.0;
  double alpha = parameters_.initial_alpha_value / 1024.0;
  // The first period has seen a CNP.
  Pass(parameters_.dce_tcp_rtt * kUs);
  alpha = alpha * (1 - g) + g;
  EXPECT_NEAR(point_.alpha(), alpha, 1e-9);
  for (int i = 0; i < 10; ++i) {
    Pass(parameters_.dce_tcp_rtt * kUs);
    alpha *= 1 - g;
    EXPECT_NEAR(point_.alpha(), alpha, 1e-9);
  }
  // All the same when nobody looked in between.
  Pass(7 * parameters_.dce_tcp_rtt * kUs);
  for (int i = 0; i < 7; ++i) alpha *= 1 - g;
  EXPECT_NEAR(point_.alpha(), alpha, 1e-9);
}

TEST_F(ReactionPointTest, CnpsWithinTheMonitorPeriodReduceOnce) {
  parameters_.rate_reduce_monitor_period = 20;
  point_.OnCnp(now_ns_);
  const double rate = point_.rate_mbps();
  point_.OnCnp(now_ns_ + 19 * kUs);
  EXPECT_EQ(point_.rate_mbps(), rate);
  point_.OnCnp(now_ns_ + 20 * kUs);
  EXPECT_LT(point_.rate_mbps(), rate * 0.6);
}

TEST_F(ReactionPointTest, ReductionIsNeverBelowItsFactor) {
  parameters_.rpg_gd = 10;  // by alpha: to nothing
  parameters_.rpg_min_dec_fac = 70;
  point_.OnCnp(now_ns_);
  EXPECT_NEAR(point_.rate_mbps(), 7'000, 1e-6);
}

TEST_F(ReactionPointTest, ClampedTargetFollowsEveryReduction) {
  for (const uint32_t clamp : {0u, 1u}) {
    parameters_.clamp_tgt_rate = clamp;
    ReactionPoint point(&parameters_);
    point.OnCnp(kStartNs);
    const double rate = point.rate_mbps();
    point.OnCnp(kStartNs + 10 * kUs);
    EXPECT_EQ(point.target_mbps(), clamp ? rate : 10'000) << clamp;
  }
}

TEST_F(ReactionPointTest, TheFirstCnpMaySetTheRate) {
  parameters_.rate_to_set_on_first_cnp = 1'234;
  point_.OnCnp(now_ns_);
  EXPECT_EQ(point_.rate_mbps(), 1'234);
  EXPECT_EQ(point_.target_mbps(), 1'234);
}

TEST_F(ReactionPointTest, NotLimitedAtTheMaximumRate) {
  point_.OnCnp(now_ns_);
  Pass(20 * parameters_.rpg_time_reset * kUs);
  EXPECT_FALSE(point_.limited());
  EXPECT_EQ(point_.Allowed(now_ns_, 4'000, kMany), kMany);
}

// However many come, the minimum is left, and what was asked for is sent at it.
TEST_F(ReactionPointTest, AFloodOfCnpsLeavesTheMinimumRate) {
  for (int i = 0; i < 10'000; ++i, now_ns_ += 10 * kUs) point_.OnCnp(now_ns_);
  EXPECT_EQ(point_.rate_mbps(), parameters_.rpg_min_rate);
  uint64_t frames = 0;
  const uint64_t end = now_ns_ + 1'000'000 * kUs;
  for (; now_ns_ < end; now_ns_ += 10 * kUs) {
    point_.OnCnp(now_ns_);
    const int allowed = point_.Allowed(now_ns_, 1'250, 1);
    point_.OnSent(static_cast<uint64_t>(allowed) * 1'250);
    frames += static_cast<uint64_t>(allowed);
  }
  EXPECT_NEAR(static_cast<double>(frames), parameters_.rpg_min_rate * 100.0, 15);
}

TEST_F(ReactionPointTest, ALongPauseIsProcessedInBoundedTime) {
  parameters_.rpg_time_reset = 1;
  parameters_.rpg_ai_rate = 1;
  for (int i = 0; i < 100; ++i, now_ns_ += 10 * kUs) point_.OnCnp(now_ns_);
  now_ns_ += 1'000'000'000'000'000;
  point_.Allowed(now_ns_, 1'000, 1);
  EXPECT_GT(point_.rate_mbps(), 500);
  EXPECT_EQ(point_.retry_ns(now_ns_), std::min(point_.retry_ns(now_ns_), now_ns_ + kUs));
}

}  // namespace
}  // namespace pollux::transport
