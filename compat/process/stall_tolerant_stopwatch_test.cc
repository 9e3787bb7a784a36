#include "compat/process/stall_tolerant_stopwatch.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

TEST(StallTolerantStopwatchTest, CountsTheTimeBetweenReadings) {
  StallTolerantStopwatch stopwatch(1000);
  EXPECT_EQ(stopwatch.Ns(1000), 0);
  EXPECT_EQ(stopwatch.Ns(1700), 700);
  EXPECT_EQ(stopwatch.Ns(1800), 800);
}

TEST(StallTolerantStopwatchTest, APauseCountsAtMostOneInterval) {
  constexpr uint64_t kHour = 3'600'000'000'000;
  StallTolerantStopwatch stopwatch(0);
  EXPECT_EQ(stopwatch.Ns(kHour), StallTolerantStopwatch::kMaxOfALookNs);
  EXPECT_EQ(stopwatch.Ns(kHour + 5), StallTolerantStopwatch::kMaxOfALookNs + 5);
}

}  // namespace
}  // namespace pollux::compat
