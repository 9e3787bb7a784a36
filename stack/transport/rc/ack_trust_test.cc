#include "stack/transport/rc/ack_trust.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

constexpr uint64_t kNow = 5'000'000'000;

TEST(AckTrustTest, OneThatNeverVolunteersIsAskedAfterItsTrials) {
  AckTrust trust;
  for (int i = 0; i < AckTrust::kTrials; ++i) {
    EXPECT_TRUE(trust.MayLeave(kNow));
    trust.OnSilence(kNow);
  }
  EXPECT_FALSE(trust.MayLeave(kNow));
  EXPECT_FALSE(trust.MayLeave(kNow + AckTrust::kRetryNs - 1));
}

TEST(AckTrustTest, ItGetsOneTrialMoreNowAndThen) {
  AckTrust trust;
  for (int i = 0; i < AckTrust::kTrials; ++i) trust.OnSilence(kNow);
  const uint64_t later = kNow + AckTrust::kRetryNs;
  EXPECT_TRUE(trust.MayLeave(later));
  trust.OnSilence(later);
  EXPECT_FALSE(trust.MayLeave(later));
}

TEST(AckTrustTest, OneThatHasShownItIsForgivenMore) {
  AckTrust trust;
  trust.OnVolunteered();
  for (int i = 0; i < AckTrust::kTrusted - 1; ++i) trust.OnSilence(kNow);
  EXPECT_TRUE(trust.MayLeave(kNow));
  trust.OnSilence(kNow);
  EXPECT_FALSE(trust.MayLeave(kNow));
  trust.Reset();
  EXPECT_TRUE(trust.MayLeave(kNow));
}

}  // namespace
}  // namespace pollux::transport
