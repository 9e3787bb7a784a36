#include "stack/base/log_rate_limiter.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(LogRateLimiterTest, LinesPerMinuteAreBounded) {
  constexpr uint64_t kMinuteNs = 60'000'000'000;
  constexpr uint32_t kPerMinute = 16;
  LogRateLimiter budget(kPerMinute);
  for (uint32_t i = 0; i < kPerMinute; ++i) EXPECT_TRUE(budget.Take(kMinuteNs + i));
  EXPECT_EQ(budget.TakeLeftOut(), 0u);
  EXPECT_FALSE(budget.Take(kMinuteNs + 100));
  EXPECT_FALSE(budget.Take(2 * kMinuteNs - 1));
  EXPECT_TRUE(budget.Take(2 * kMinuteNs + 50));
  EXPECT_EQ(budget.TakeLeftOut(), 2u);
  EXPECT_EQ(budget.TakeLeftOut(), 0u);
}

TEST(LogRateLimiterTest, APeerDoesNotSuppressTheEntriesOfAnother) {
  constexpr uint64_t kMinuteNs = 60'000'000'000;
  constexpr uint32_t kOfAddress = 2, kTotal = 3;
  const Gid one = Gid::FromIpv4(1), two = Gid::FromIpv4(2);
  PeerLogRateLimiter lines(kOfAddress, kTotal);
  for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(lines.Take(one, kMinuteNs + i), i < kOfAddress);
  EXPECT_TRUE(lines.Take(two, kMinuteNs + 10));
  EXPECT_FALSE(lines.Take(two, kMinuteNs + 11));  // the total
  EXPECT_EQ(lines.TakeLeftOut(), 10 - kOfAddress + 1);
  EXPECT_TRUE(lines.Take(one, 2 * kMinuteNs));
  EXPECT_EQ(lines.TakeLeftOut(), 0u);
}

}  // namespace
}  // namespace pollux
