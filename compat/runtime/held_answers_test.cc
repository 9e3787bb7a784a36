#include "compat/runtime/held_answers.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

constexpr uint64_t kNowNs = 1'000'000'000;

void Hold(HeldAnswers& answers) {
  ASSERT_TRUE(answers.MayHold(kNowNs));
  answers.Held(true, kNowNs);
}

TEST(HeldAnswers, WaitForAPostButNotForLong) {
  HeldAnswers answers;
  Hold(answers);
  EXPECT_TRUE(answers.MayHold(kNowNs + HeldAnswers::kMaxNs - 1));
  answers.Held(true, kNowNs + HeldAnswers::kMaxNs - 1);
  EXPECT_FALSE(answers.MayHold(kNowNs + HeldAnswers::kMaxNs)) << "they count from the first";
}

TEST(HeldAnswers, NothingWaitsWhenNothingIsOwed) {
  HeldAnswers answers;
  answers.Held(false, kNowNs);
  EXPECT_TRUE(answers.MayHold(kNowNs + HeldAnswers::kMaxNs));
}

TEST(HeldAnswers, AreTriedSeldomWithAProgramThatDoesNotPost) {
  HeldAnswers answers;
  for (uint32_t miss = 0; miss < HeldAnswers::kMisses; ++miss) {
    Hold(answers);
    answers.Sent(true);
  }
  for (int round = 0; round < 3; ++round) {
    for (uint32_t turn = 0; turn < HeldAnswers::kPause; ++turn) {
      EXPECT_FALSE(answers.MayHold(kNowNs)) << turn;
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
  EXPECT_TRUE(answers.MayHold(kNowNs));
}

TEST(HeldAnswers, APostWithoutAnyIsNoSign) {
  HeldAnswers answers;
  for (uint32_t miss = 0; miss < HeldAnswers::kMisses; ++miss) {
    answers.Accompanied();
    Hold(answers);
    answers.Sent(true);
  }
  EXPECT_FALSE(answers.MayHold(kNowNs));
}

}  // namespace
}  // namespace pollux::compat
