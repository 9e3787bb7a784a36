#include "tests/bench/memory_cost.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "stack/engine/eal.h"

namespace pollux::bench {
namespace {

TEST(MemoryCostTest, MemoryPerObjectStaysWithinItsBound) {
  ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok());
  for (const MemoryCost& cost : MeasureMemoryCosts()) {
    EXPECT_LE(cost.bytes, cost.most) << cost.what;
    // What costs nothing at all was not measured.
    if (cost.most > 0) {
      EXPECT_GT(cost.bytes, 8) << cost.what;
    }
    std::printf("%-40s%10.1f, at most %.0f\n", cost.what.c_str(), cost.bytes, cost.most);
  }
}

}  // namespace
}  // namespace pollux::bench
