#include "stack/engine/polling/sleep_length.h"

#include <gtest/gtest.h>

namespace pollux::engine {
namespace {

constexpr uint64_t kNow = 1'000'000'000;

TEST(SleepLengthTest, GrowsToItsLimitAndRestartsAfterWork) {
  SleepLength length;
  uint64_t before = 0;
  for (int i = 0; i < 20; ++i) {
    const uint64_t next = length.Next(kNow, UINT64_MAX);
    EXPECT_GE(next, before);
    EXPECT_LE(next, SleepLength::kMaxNs);
    before = next;
  }
  EXPECT_EQ(before, SleepLength::kMaxNs);
  length.Reset();
  EXPECT_EQ(length.Next(kNow, UINT64_MAX), SleepLength::kMinNs);
}

TEST(SleepLengthTest, NeverExtendsBeyondATimer) {
  SleepLength length;
  for (int i = 0; i < 20; ++i) length.Next(kNow, UINT64_MAX);
  EXPECT_EQ(length.Next(kNow, kNow + 1), 1u);
  EXPECT_EQ(length.Next(kNow, kNow + SleepLength::kMaxNs - 1), SleepLength::kMaxNs - 1);
  EXPECT_EQ(length.Next(kNow, kNow + SleepLength::kMaxNs + 1), SleepLength::kMaxNs);
  EXPECT_EQ(length.Next(kNow, kNow), 0u);
  EXPECT_EQ(length.Next(kNow, kNow - 1), 0u);
  EXPECT_EQ(length.Next(kNow, 0), 0u);
}

}  // namespace
}  // namespace pollux::engine
