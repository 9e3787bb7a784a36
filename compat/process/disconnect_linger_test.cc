#include "compat/process/disconnect_linger.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

using Step = DisconnectLinger::Step;

constexpr uint64_t kNow = 1'000'000'000;

TEST(DisconnectLinger, RepeatsUntilTheTimeout) {
  DisconnectLinger linger(kNow);
  EXPECT_EQ(linger.Next(kNow), Step::kWait);
  uint64_t repeats = 0;
  for (uint64_t now_ns = kNow; now_ns < kNow + DisconnectLinger::kTimeoutNs; now_ns += 1'000'000) {
    const Step step = linger.Next(now_ns);
    EXPECT_NE(step, Step::kGiveUp);
    if (step == Step::kRepeat) ++repeats;
  }
  EXPECT_EQ(repeats, DisconnectLinger::kTimeoutNs / DisconnectLinger::kRepeatNs - 1);
  EXPECT_EQ(linger.Next(kNow + DisconnectLinger::kTimeoutNs), Step::kGiveUp);
}

// Of a process that has lost its CPU meanwhile.
TEST(DisconnectLinger, RepeatsOnceAfterAStall) {
  DisconnectLinger linger(kNow);
  EXPECT_EQ(linger.Next(kNow + 5 * DisconnectLinger::kRepeatNs), Step::kRepeat);
  EXPECT_EQ(linger.Next(kNow + 5 * DisconnectLinger::kRepeatNs + 1), Step::kWait);
}

}  // namespace
}  // namespace pollux::compat
