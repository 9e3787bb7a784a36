#include <gtest/gtest.h>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "stack/engine/eal.h"
#include "tests/sim/rc_program.h"

ABSL_FLAG(uint64_t, seeds, 1000, "how many random programs to run");
ABSL_FLAG(uint64_t, first_seed, 1, "the first of them");

namespace pollux::sim {
namespace {

TEST(RcSimTest, EveryProgramKeepsItsPromises) {
  const uint64_t first = absl::GetFlag(FLAGS_first_seed);
  const uint64_t count = absl::GetFlag(FLAGS_seeds);
  RcOutcome sum;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RcOutcome outcome = RunRcProgram(seed);
    ASSERT_EQ(outcome.violation, "")
        << "seed " << seed << "; to repeat: --seeds=1 --first_seed=" << seed;
    sum.retransmitted_pkts += outcome.retransmitted_pkts;
    sum.rnr_naks += outcome.rnr_naks;
    sum.bad_icrc += outcome.bad_icrc;
  }
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

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  if (const absl::Status status = pollux::engine::InitEal(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
