#include "stack/engine/polling/idle_option.h"

#include <gtest/gtest.h>

namespace pollux::engine {
namespace {

TEST(IdleTest, ModeNamesAreParsed) {
  EXPECT_EQ(ParseIdle("spin").value(), Idle::kSpin);
  EXPECT_EQ(ParseIdle("yield").value(), Idle::kYield);
  EXPECT_EQ(ParseIdle("sleep").value(), Idle::kSleep);
  for (const char* wrong : {"", "Sleep", "sleepy"}) EXPECT_FALSE(ParseIdle(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace pollux::engine
