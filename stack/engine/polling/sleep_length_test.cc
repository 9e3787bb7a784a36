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

TEST(SleepLengthTest, AnIdleThreadIsWokenAtMostTwoHundredTimesPerSecond) {
  SleepLength length;
  constexpr uint64_t kSecond = 1'000'000'000;
  uint64_t now_ns = kNow;
  while (now_ns < kNow + 2 * kSecond) now_ns += length.Next(now_ns, UINT64_MAX);
  int sleeps = 0;
  for (const uint64_t end_ns = now_ns + kSecond; now_ns < end_ns; ++sleeps) {
    now_ns += length.Next(now_ns, UINT64_MAX);
  }
  EXPECT_LE(sleeps, 200);
  length.Reset();
  for (uint64_t slept_ns = 0; slept_ns < SleepLength::kIdleNs;) {
    const uint64_t next_ns = length.Next(now_ns, UINT64_MAX);
    EXPECT_LE(next_ns, SleepLength::kMaxNs) << slept_ns;
    slept_ns += next_ns;
  }
}

TEST(SleepLengthTest, PollsForTimersAreNotTimeSlept) {
  SleepLength length;
  for (uint32_t polls = 0; polls < 100'000; ++polls) {
    EXPECT_EQ(length.Next(kNow, kNow), 0u);
    ASSERT_LE(length.Next(kNow, kNow + SleepLength::kMinNs / 10), SleepLength::kMinNs / 10);
  }
  EXPECT_LE(length.Next(kNow, UINT64_MAX), SleepLength::kMaxNs);
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
