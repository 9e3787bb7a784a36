#include "stack/transport/rc/peer_ack_behavior.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

constexpr uint64_t kNow = 5'000'000'000;

TEST(PeerAckBehaviorTest, ASilentPeerIsAskedForAcknowledgementsAfterItsTrials) {
  PeerAckBehavior trust;
  for (int i = 0; i < PeerAckBehavior::kTrials; ++i) {
    EXPECT_TRUE(trust.MayLeave(kNow));
    trust.OnSilence(kNow);
  }
  EXPECT_FALSE(trust.MayLeave(kNow));
  EXPECT_FALSE(trust.MayLeave(kNow + PeerAckBehavior::kRetryNs - 1));
}

TEST(PeerAckBehaviorTest, ASilentPeerGetsOneMoreTrialAfterTheRetryInterval) {
  PeerAckBehavior trust;
  for (int i = 0; i < PeerAckBehavior::kTrials; ++i) trust.OnSilence(kNow);
  const uint64_t later = kNow + PeerAckBehavior::kRetryNs;
  EXPECT_TRUE(trust.MayLeave(later));
  trust.OnSilence(later);
  EXPECT_FALSE(trust.MayLeave(later));
}

TEST(PeerAckBehaviorTest, APeerThatVolunteeredGetsMoreTrials) {
  PeerAckBehavior trust;
  trust.OnVolunteered();
  for (int i = 0; i < PeerAckBehavior::kTrusted - 1; ++i) trust.OnSilence(kNow);
  EXPECT_TRUE(trust.MayLeave(kNow));
  trust.OnSilence(kNow);
  EXPECT_FALSE(trust.MayLeave(kNow));
  trust.Reset();
  EXPECT_TRUE(trust.MayLeave(kNow));
}

}  // namespace
}  // namespace pollux::transport
