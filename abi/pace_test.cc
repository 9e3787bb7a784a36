#include "abi/pace.h"

#include <gtest/gtest.h>

namespace pollux::abi {
namespace {

using engine::Idle;
using Pause = Pace::Pause;

constexpr uint64_t kNow = 1'000'000'000;
constexpr uint32_t kYieldAfter = 4;

// A look so long after the program has driven, and the turn that is then taken.
Pause Turn(Pace& pace, uint64_t silent_ns, bool busy, bool sleep_expected = false) {
  EXPECT_TRUE(pace.Due(kNow, kNow - silent_ns, sleep_expected)) << silent_ns;
  return pace.AfterTurn(busy);
}

TEST(Pace, LeavesAPollingProgramItsPort) {
  Pace pace(Idle::kYield, kYieldAfter);
  for (const uint64_t driven_ns : {kNow, kNow + 5'000, kNow - Pace::kAbandonedNs}) {
    EXPECT_FALSE(pace.Due(kNow, driven_ns, false));
    EXPECT_EQ(pace.WithoutTurn(), Pause::kNap);
  }
  EXPECT_TRUE(pace.Due(kNow, kNow - Pace::kAbandonedNs - 1, false));
}

TEST(Pace, ServesSleepersAtOnce) {
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_TRUE(pace.Due(kNow, kNow, true));
  EXPECT_EQ(pace.WithoutTurn(), Pause::kYield) << "another thread has the worker";
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) {
    EXPECT_EQ(Turn(pace, 0, false, true), Pause::kNone);
  }
  EXPECT_EQ(Turn(pace, 0, false, true), Pause::kYield);
  EXPECT_EQ(Turn(pace, 0, true, true), Pause::kNone);
  EXPECT_EQ(Turn(pace, 0, false, true), Pause::kNone);
}

TEST(Pace, SpinsForAProgramThatIsElsewhereAndThenNaps) {
  Pace pace(Idle::kYield, 0);
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, true), Pause::kNone);
  for (uint32_t turn = 0; turn < Pace::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(pace, Pace::kMomentNs, false), Pause::kNone);
  }
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, false), Pause::kNap);
}

TEST(Pace, NapsWhereIdleMeansSleep) {
  Pace pace(Idle::kSleep, kYieldAfter);
  for (uint32_t turn = 0; turn < kYieldAfter; ++turn) Turn(pace, Pace::kMomentNs, false);
  EXPECT_EQ(Turn(pace, Pace::kMomentNs, false), Pause::kNap);
}

TEST(Pace, NapsAreShortAsLongAsThePacketsOfOneWhoCallsNowAndThenWaitForTheirEnd) {
  Pace pace(Idle::kYield, kYieldAfter);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, false), Pause::kNap);
  for (int packets = 0; packets < 3; ++packets) {
    EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, true), Pause::kNone);
    EXPECT_EQ(Turn(pace, Pace::kShortNapNs + 1, false), Pause::kShortNap) << "it is soon abandoned";
    EXPECT_FALSE(pace.Due(kNow, kNow - Pace::kShortNapNs, false)) << "it has called";
    EXPECT_EQ(pace.WithoutTurn(), Pause::kShortNap);
  }
  for (uint32_t naps = 2; naps < Pace::kShortNaps; ++naps) {
    EXPECT_EQ(Turn(pace, Pace::kShortNapNs + 1, false), Pause::kShortNap) << naps;
  }
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, false), Pause::kNap);
  EXPECT_FALSE(pace.Due(kNow, kNow - Pace::kAbandonedNs, false));
}

TEST(Pace, HasACpuOfItsOwnWhereIdleMeansSpin) {
  Pace pace(Idle::kSpin, kYieldAfter);
  EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, true), Pause::kNone);
  for (uint32_t turn = 0; turn < Pace::kSpinTurns; ++turn) {
    EXPECT_EQ(Turn(pace, Pace::kAbandonedNs + 1, false), Pause::kNone);
  }
}

}  // namespace
}  // namespace pollux::abi
