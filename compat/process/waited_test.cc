#include "compat/process/waited.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

TEST(WaitedTest, CountsTheTimeBetweenLooks) {
  Waited waited(1000);
  EXPECT_EQ(waited.Ns(1000), 0);
  EXPECT_EQ(waited.Ns(1700), 700);
  EXPECT_EQ(waited.Ns(1800), 800);
}

TEST(WaitedTest, APauseCountsAsOneLook) {
  constexpr uint64_t kHour = 3'600'000'000'000;
  Waited waited(0);
  EXPECT_EQ(waited.Ns(kHour), Waited::kMostOfALookNs);
  EXPECT_EQ(waited.Ns(kHour + 5), Waited::kMostOfALookNs + 5);
}

}  // namespace
}  // namespace pollux::compat
