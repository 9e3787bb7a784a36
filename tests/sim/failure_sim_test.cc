#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/failure_program.h"
#include "tests/sim/seeds.h"

namespace pollux::sim {
namespace {

class FailureSimTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FailureSimTest, FailuresStayWithinTheirBounds) {
  const std::vector<uint64_t> seeds = AskedSeeds(GetParam());
  FailureOutcome sum;
  for (const uint64_t seed : seeds) {
    const FailureOutcome outcome = RunFailureProgram(seed);
    ASSERT_EQ(outcome.violation, "") << HowToRepeat(seed);
    for (size_t i = 0; i < kSimulatedFaults; ++i) sum.fired[i] += outcome.fired[i];
    sum.failed += outcome.failed;
    sum.gave_up += outcome.gave_up;
    sum.lost_messages += outcome.lost_messages;
  }
  const uint64_t count = seeds.size();
  // Programs in which nothing ever went wrong would prove little.
  if (count >= 100) {
    for (size_t i = 0; i < kSimulatedFaults; ++i)
      EXPECT_GT(sum.fired[i], count / 50) << "fault " << i;
    EXPECT_GT(sum.failed, count / 2);
    EXPECT_GT(sum.gave_up, count / 100);
    EXPECT_GT(sum.lost_messages, count / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, FailureSimTest, ::testing::Range<uint64_t>(0, kSeedParts));

TEST(FailureSimRepetition, TheSameSeedRepeatsTheRunExactly) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const FailureOutcome once = RunFailureProgram(seed);
    RunFailureProgram(seed + 1000);
    EXPECT_EQ(once.digest, RunFailureProgram(seed).digest) << seed;
    EXPECT_NE(once.digest, RunFailureProgram(seed + 1).digest) << seed;
  }
}

}  // namespace
}  // namespace pollux::sim
