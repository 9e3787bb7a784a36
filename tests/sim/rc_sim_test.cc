#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/rc_program.h"
#include "tests/sim/seeds.h"

namespace pollux::sim {
namespace {

class RcSimTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RcSimTest, EveryProgramBehavesAsSpecified) {
  const std::vector<uint64_t> seeds = AskedSeeds(GetParam());
  RcOutcome sum;
  for (const uint64_t seed : seeds) {
    const RcOutcome outcome = RunRcProgram(seed);
    ASSERT_EQ(outcome.violation, "") << HowToRepeat(seed);
    sum.retransmitted_pkts += outcome.retransmitted_pkts;
    sum.rnr_naks += outcome.rnr_naks;
    sum.cnps += outcome.cnps;
    sum.drained += outcome.drained;
    sum.bad_icrc += outcome.bad_icrc;
  }
  const uint64_t count = seeds.size();
  // Programs in which nothing ever went wrong would prove little.
  if (count >= 100) {
    EXPECT_GT(sum.retransmitted_pkts, count);
    EXPECT_GT(sum.rnr_naks, count / 10);
    EXPECT_GT(sum.cnps, count / 10);
    EXPECT_GT(sum.drained, count / 10);
    EXPECT_GT(sum.bad_icrc, count / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, RcSimTest, ::testing::Range<uint64_t>(0, kSeedParts));

// The same with rings between cores on the way of every packet, at both ends.
TEST(RcSimBehindRings, EveryProgramBehavesAsSpecified) {
  constexpr uint64_t kPrograms = 200;
  uint64_t retransmitted_pkts = 0;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const RcOutcome outcome = RunRcProgram(seed, /*behind_rings=*/true);
    ASSERT_EQ(outcome.violation, "") << HowToRepeat(seed);
    retransmitted_pkts += outcome.retransmitted_pkts;
  }
  EXPECT_GT(retransmitted_pkts, kPrograms);
}

TEST(RcSimRepetition, TheSameSeedRepeatsTheRunExactly) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RcOutcome once = RunRcProgram(seed);
    RunRcProgram(seed + 1000);
    const RcOutcome again = RunRcProgram(seed);
    EXPECT_EQ(once.digest, again.digest) << seed;
    EXPECT_NE(once.digest, RunRcProgram(seed + 1).digest) << seed;
  }
}

}  // namespace
}  // namespace pollux::sim
