#include "tools/failure_log.h"

#include <gtest/gtest.h>

namespace pollux::tools {
namespace {

TEST(FailureLogTest, Text) {
  EXPECT_EQ(
      FailureText({.address = Gid::FromIpv4(0xC0000202), .port = 4711},
                  {.address = Gid::FromIpv4(0xC0000201), .port = 20049}, "no answer", "  line\n"),
      "connection 192.0.2.2:4711 to 192.0.2.1:20049 failed: no answer; its last events:\n"
      "  line\n");
}

TEST(FailureLogTest, SoManyAMinute) {
  constexpr uint64_t kMinuteNs = 60'000'000'000;
  FailureBudget budget;
  for (uint32_t i = 0; i < FailureBudget::kPerMinute; ++i) EXPECT_TRUE(budget.Take(kMinuteNs + i));
  EXPECT_EQ(budget.TakeLeftOut(), 0u);
  EXPECT_FALSE(budget.Take(kMinuteNs + 100));
  EXPECT_FALSE(budget.Take(2 * kMinuteNs - 1));
  EXPECT_TRUE(budget.Take(2 * kMinuteNs + 50));
  EXPECT_EQ(budget.TakeLeftOut(), 2u);
  EXPECT_EQ(budget.TakeLeftOut(), 0u);
}

}  // namespace
}  // namespace pollux::tools
