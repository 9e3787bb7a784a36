#include "tools/common/duration.h"

#include <gtest/gtest.h>

namespace pollux::tools {
namespace {

TEST(DurationTest, ParsesEveryUnit) {
  EXPECT_EQ(*ParseDurationNs("20ns"), 20);
  EXPECT_EQ(*ParseDurationNs("20us"), 20e3);
  EXPECT_EQ(*ParseDurationNs("1.5ms"), 1.5e6);
  EXPECT_EQ(*ParseDurationNs("2s"), 2e9);
  EXPECT_EQ(*ParseDurationNs("0s"), 0);
}

TEST(DurationTest, RefusesInvalidDurations) {
  for (const char* text : {"", "us", "20", "20 us", "-1s", "20usx", "1e3us", "1.2.3us", "0x10us"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDurationNs(text).status())) << text;
  }
}

TEST(DurationTest, FormatsInTheLargestUnitThatFits) {
  EXPECT_EQ(FormatDurationNs(0), "0ns");
  EXPECT_EQ(FormatDurationNs(999), "999ns");
  EXPECT_EQ(FormatDurationNs(1'000), "1.000us");
  EXPECT_EQ(FormatDurationNs(45'230), "45.230us");
  EXPECT_EQ(FormatDurationNs(1.5e6), "1.500ms");
  EXPECT_EQ(FormatDurationNs(2e9), "2.000s");
}

}  // namespace
}  // namespace pollux::tools
