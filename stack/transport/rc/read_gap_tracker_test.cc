#include "stack/transport/rc/read_gap_tracker.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

// Three requests of ten packets, across the wrap of PSNs; 30 were sent.
class ReadGapTrackerTest : public ::testing::Test {
 protected:
  Psn At(uint32_t packet) const { return first_ + packet; }
  void Ask(uint32_t begin, uint32_t end) { repairs_.Asked(At(begin), At(end), At(sent_)); }
  bool Awaits(uint32_t begin, uint32_t end) const { return repairs_.Awaits(At(begin), At(end)); }
  // The answer to `packet` arrives: true when it shows a loss.
  bool Arrive(uint32_t packet) {
    arrived_.Add(At(packet));
    return repairs_.OnAnswer(At(packet), At(una_), arrived_);
  }

  const Psn first_{Psn::kMask - 7};
  uint32_t una_ = 0;
  uint32_t sent_ = 30;
  ReceivedPsnBitmap arrived_;
  ReadGapTracker repairs_;
};

TEST_F(ReadGapTrackerTest, AGapIsPendingUntilItIsClosed) {
  Ask(3, 5);
  EXPECT_TRUE(Awaits(0, 10));
  EXPECT_TRUE(Awaits(4, 5));
  EXPECT_FALSE(Awaits(5, 10));
  EXPECT_FALSE(Awaits(0, 3));
  EXPECT_FALSE(Arrive(3));
  EXPECT_TRUE(Awaits(0, 10));
  EXPECT_FALSE(Arrive(4));
  EXPECT_FALSE(Awaits(0, 10));
  EXPECT_TRUE(repairs_.empty());
}

TEST_F(ReadGapTrackerTest, RetiredPacketsOfAGapCountAsArrived) {
  Ask(0, 3);
  EXPECT_FALSE(Arrive(0));
  EXPECT_TRUE(arrived_.Take(At(0)));
  una_ = 1;
  EXPECT_FALSE(Arrive(1));
  EXPECT_FALSE(Arrive(2));
  EXPECT_TRUE(repairs_.empty());
}

TEST_F(ReadGapTrackerTest, AResponseToALaterRepetitionProvesAnEarlierOneLost) {
  Ask(3, 5);
  Ask(12, 13);
  Ask(25, 27);
  EXPECT_TRUE(Arrive(12));
  EXPECT_FALSE(Awaits(0, 20));
  EXPECT_TRUE(Awaits(25, 27));
}

TEST_F(ReadGapTrackerTest, AResponseToALaterRequestProvesARepetitionLost) {
  Ask(3, 5);
  sent_ = 40;
  Ask(12, 13);
  EXPECT_FALSE(Arrive(29)) << "sent before both";
  EXPECT_TRUE(Arrive(30));
  EXPECT_FALSE(Awaits(3, 5));
  EXPECT_TRUE(Awaits(12, 13));
}

TEST_F(ReadGapTrackerTest, AResponseWithoutTheStartOfTheGapIsALoss) {
  Ask(3, 6);
  EXPECT_FALSE(Arrive(3));
  EXPECT_TRUE(Arrive(5));
  EXPECT_TRUE(repairs_.empty());
}

TEST_F(ReadGapTrackerTest, ARepeatedRequestBecomesTheLatest) {
  Ask(3, 5);
  Ask(12, 13);
  Ask(3, 5);
  EXPECT_TRUE(Arrive(3)) << "of 12";
  EXPECT_TRUE(Awaits(3, 5));
  EXPECT_FALSE(Awaits(12, 13));
}

TEST_F(ReadGapTrackerTest, ForgetFromDropsLaterGaps) {
  Ask(3, 5);
  Ask(12, 14);
  Ask(25, 27);
  repairs_.ForgetFrom(At(13));
  EXPECT_TRUE(Awaits(3, 5));
  EXPECT_FALSE(Awaits(12, 30));
  repairs_.Clear();
  EXPECT_TRUE(repairs_.empty());
}

TEST_F(ReadGapTrackerTest, GapsAboveTheMaximumAreNotTracked) {
  for (uint32_t i = 0; i < ReadGapTracker::kMax; ++i) {
    EXPECT_FALSE(repairs_.full());
    Ask(2 * i, 2 * i + 1);
  }
  EXPECT_TRUE(repairs_.full());
  Ask(100, 101);
  EXPECT_FALSE(Awaits(100, 101));
  Ask(0, 1);
  EXPECT_TRUE(Awaits(0, 1)) << "in the place of what it was";
  EXPECT_TRUE(Arrive(0)) << "of all others";
  EXPECT_TRUE(repairs_.empty());
}

}  // namespace
}  // namespace pollux::transport
