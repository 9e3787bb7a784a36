#include "stack/engine/polling/clock.h"

#include <gtest/gtest.h>

#include "stack/engine/eal.h"

namespace pollux::engine {
namespace {

TEST(ClockTest, CyclesConvertToNanosecondsWithoutOverflow) {
  EXPECT_EQ(Clock(1'000'000'000).ToNs(123'456'789), 123'456'789u);
  EXPECT_NEAR(static_cast<double>(Clock(2'500'000'000).ToNs(2'500'000'000)), 1e9, 1);
  EXPECT_NEAR(static_cast<double>(Clock(3'700'000'001).ToNs(3'700'000'001)), 1e9, 1);
  // A year at 4 GHz does not overflow, and is right to a millisecond in a year.
  constexpr uint64_t kYear = 365ull * 86'400;
  EXPECT_NEAR(static_cast<double>(Clock(4'000'000'000).ToNs(kYear * 4'000'000'000)),
              static_cast<double>(kYear) * 1e9, 1e7);
}

TEST(ClockTest, NeverGoesBackwards) {
  ASSERT_TRUE(InitEal().ok());
  const Clock clock;
  uint64_t last = clock.NowNs();
  for (int i = 0; i < 1000; ++i) {
    const uint64_t now = clock.NowNs();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(clock.NowNs(), 0u);
}

}  // namespace
}  // namespace pollux::engine
