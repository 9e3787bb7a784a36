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

}  // namespace
}  // namespace pollux
