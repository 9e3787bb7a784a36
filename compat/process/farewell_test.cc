#include "compat/process/farewell.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

using Step = Farewell::Step;

constexpr uint64_t kNow = 1'000'000'000;

TEST(Farewell, RepeatsAndEnds) {
  Farewell farewell(kNow);
  EXPECT_EQ(farewell.Next(kNow), Step::kWait);
  uint64_t repeats = 0;
  for (uint64_t now_ns = kNow; now_ns < kNow + Farewell::kPatienceNs; now_ns += 1'000'000) {
    const Step step = farewell.Next(now_ns);
    EXPECT_NE(step, Step::kGiveUp);
    if (step == Step::kRepeat) ++repeats;
  }
  EXPECT_EQ(repeats, Farewell::kPatienceNs / Farewell::kRepeatNs - 1);
  EXPECT_EQ(farewell.Next(kNow + Farewell::kPatienceNs), Step::kGiveUp);
}

// Of a process that has lost its CPU meanwhile.
TEST(Farewell, RepeatsOnceAfterAStall) {
  Farewell farewell(kNow);
  EXPECT_EQ(farewell.Next(kNow + 5 * Farewell::kRepeatNs), Step::kRepeat);
  EXPECT_EQ(farewell.Next(kNow + 5 * Farewell::kRepeatNs + 1), Step::kWait);
}

}  // namespace
}  // namespace pollux::compat
