#include "stack/base/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux {
namespace {

TEST(RandomTest, TheSameSeedGivesTheSameStream) {
  Random a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = a.Next64();
    EXPECT_EQ(x, b.Next64());
    differs |= x != c.Next64();
  }
  EXPECT_TRUE(differs);
}

TEST(RandomTest, SystemSeedsDiffer) { EXPECT_NE(Random::SystemSeed(), Random::SystemSeed()); }

TEST(RandomTest, BelowStaysBelowAndReachesEveryValue) {
  Random random(1);
  std::vector<int> hits(7);
  for (int i = 0; i < 7000; ++i) ++hits.at(random.Below(7));
  for (int hit : hits) EXPECT_NEAR(hit, 1000, 200);
}

TEST(RandomTest, ChanceMatchesItsProbability) {
  Random random(1);
  int hits = 0;
  for (int i = 0; i < 10000; ++i) {
    EXPECT_FALSE(random.Chance(0));
    EXPECT_TRUE(random.Chance(1));
    hits += random.Chance(0.25);
  }
  EXPECT_NEAR(hits, 2500, 250);
}

}  // namespace
}  // namespace pollux
