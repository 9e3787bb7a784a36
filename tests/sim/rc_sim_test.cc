#include <gtest/gtest.h>

#include "tests/sim/rc_program.h"
#include "tests/sim/seeds.h"

namespace pollux::sim {
namespace {

TEST(RcSimTest, EveryProgramKeepsItsPromises) {
  RcOutcome sum;
  for (const uint64_t seed : AskedSeeds()) {
    const RcOutcome outcome = RunRcProgram(seed);
    ASSERT_EQ(outcome.violation, "") << HowToRepeat(seed);
    sum.retransmitted_pkts += outcome.retransmitted_pkts;
    sum.rnr_naks += outcome.rnr_naks;
    sum.bad_icrc += outcome.bad_icrc;
  }
  const uint64_t count = AskedSeeds().size();
  // Programs in which nothing ever went wrong would prove little.
  if (count >= 100) {
    EXPECT_GT(sum.retransmitted_pkts, count);
    EXPECT_GT(sum.rnr_naks, count / 10);
    EXPECT_GT(sum.bad_icrc, count / 10);
  }
}

TEST(RcSimTest, ASeedAloneRepeatsExactly) {
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
