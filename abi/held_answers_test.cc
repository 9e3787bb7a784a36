#include "abi/held_answers.h"

#include <gtest/gtest.h>

namespace pollux::abi {
namespace {

constexpr uint64_t kNow = 1'000'000'000;

void Hold(HeldAnswers& answers) {
  ASSERT_TRUE(answers.MayHold(kNow));
  answers.Held(true, kNow);
}

TEST(HeldAnswers, WaitForAPostButNotForLong) {
  HeldAnswers answers;
  Hold(answers);
  EXPECT_TRUE(answers.MayHold(kNow + HeldAnswers::kMostNs - 1));
  answers.Held(true, kNow + HeldAnswers::kMostNs - 1);
  EXPECT_FALSE(answers.MayHold(kNow + HeldAnswers::kMostNs)) << "they count from the first";
}

TEST(HeldAnswers, NothingWaitsWhenNothingIsOwed) {
  HeldAnswers answers;
  answers.Held(false, kNow);
  EXPECT_TRUE(answers.MayHold(kNow + HeldAnswers::kMostNs));
}

TEST(HeldAnswers, AreTriedSeldomWithAProgramThatDoesNotPost) {
  HeldAnswers answers;
  for (uint32_t miss = 0; miss < HeldAnswers::kMisses; ++miss) {
    Hold(answers);
    answers.Sent(true);
  }
  for (int round = 0; round < 3; ++round) {
    for (uint32_t turn = 0; turn < HeldAnswers::kPause; ++turn) {
      EXPECT_FALSE(answers.MayHold(kNow)) << turn;
      answers.Sent(false);
      answers.Sent(true);
    }
    Hold(answers);
    answers.Sent(true);
  }
}

TEST(HeldAnswers, APostMakesUpForMisses) {
  HeldAnswers answers;
  for (int round = 0; round < 3; ++round) {
    for (uint32_t miss = 1; miss < HeldAnswers::kMisses; ++miss) {
      Hold(answers);
      answers.Sent(true);
    }
    Hold(answers);
    answers.Accompanied();
  }
  EXPECT_TRUE(answers.MayHold(kNow));
}

TEST(HeldAnswers, APostWithoutAnyIsNoSign) {
  HeldAnswers answers;
  for (uint32_t miss = 0; miss < HeldAnswers::kMisses; ++miss) {
    answers.Accompanied();
    Hold(answers);
    answers.Sent(true);
  }
  EXPECT_FALSE(answers.MayHold(kNow));
}

}  // namespace
}  // namespace pollux::abi
