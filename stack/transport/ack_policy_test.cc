#include "stack/transport/ack_policy.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

constexpr uint64_t kNowNs = 1'000'000'000;

void Hold(AckPolicy& policy) {
  ASSERT_EQ(policy.Choose(kNowNs), AckPolicy::kHold);
  policy.Held(true, kNowNs);
}

TEST(AckPolicy, AcknowledgementsAreHeldForAPostForALimitedTime) {
  AckPolicy policy;
  Hold(policy);
  EXPECT_EQ(policy.Choose(kNowNs + AckPolicy::kMaxHoldNs - 1), AckPolicy::kHold);
  policy.Held(true, kNowNs + AckPolicy::kMaxHoldNs - 1);
  EXPECT_EQ(policy.Choose(kNowNs + AckPolicy::kMaxHoldNs), AckPolicy::kSendNow)
      << "the time counts from the first";
}

TEST(AckPolicy, WithoutOwedAcknowledgementsTheHoldTimeDoesNotRun) {
  AckPolicy policy;
  policy.Held(false, kNowNs);
  EXPECT_EQ(policy.Choose(kNowNs + AckPolicy::kMaxHoldNs), AckPolicy::kHold);
}

TEST(AckPolicy, HoldingIsPausedForAProgramThatDoesNotPost) {
  AckPolicy policy;
  for (uint32_t miss = 0; miss < AckPolicy::kMaxMisses; ++miss) {
    Hold(policy);
    policy.Sent(true);
  }
  for (int round = 0; round < 3; ++round) {
    for (uint32_t turn = 0; turn < AckPolicy::kPauseTurns; ++turn) {
      EXPECT_EQ(policy.Choose(kNowNs), AckPolicy::kSendNow) << turn;
      policy.Sent(false);
      policy.Sent(true);
    }
    Hold(policy);
    policy.Sent(true);
  }
}

TEST(AckPolicy, APostResetsTheCountOfMisses) {
  AckPolicy policy;
  for (int round = 0; round < 3; ++round) {
    for (uint32_t miss = 1; miss < AckPolicy::kMaxMisses; ++miss) {
      Hold(policy);
      policy.Sent(true);
    }
    Hold(policy);
    policy.Posted();
  }
  EXPECT_EQ(policy.Choose(kNowNs), AckPolicy::kHold);
}

TEST(AckPolicy, APostWithoutHeldAcknowledgementsDoesNotResetMisses) {
  AckPolicy policy;
  for (uint32_t miss = 0; miss < AckPolicy::kMaxMisses; ++miss) {
    policy.Posted();
    Hold(policy);
    policy.Sent(true);
  }
  EXPECT_EQ(policy.Choose(kNowNs), AckPolicy::kSendNow);
}

}  // namespace
}  // namespace pollux::transport
