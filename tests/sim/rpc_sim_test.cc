#include <gtest/gtest.h>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "stack/engine/eal.h"
#include "tests/sim/rpc_program.h"

ABSL_FLAG(uint64_t, seeds, 400, "how many random programs to run");
ABSL_FLAG(uint64_t, first_seed, 1, "the first of them");

namespace pollux::sim {
namespace {

TEST(RpcSimTest, EveryProgramKeepsItsPromises) {
  const uint64_t first = absl::GetFlag(FLAGS_first_seed);
  const uint64_t count = absl::GetFlag(FLAGS_seeds);
  RpcOutcome sum;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RpcOutcome outcome = RunRpcProgram(seed);
    ASSERT_EQ(outcome.violation, "")
        << "seed " << seed << "; to repeat: --seeds=1 --first_seed=" << seed;
    sum.succeeded += outcome.succeeded;
    sum.unavailable += outcome.unavailable;
    sum.timed_out += outcome.timed_out;
    sum.connections += outcome.connections;
    sum.bytes_read += outcome.bytes_read;
    sum.bytes_written += outcome.bytes_written;
    sum.retransmitted_pkts += outcome.retransmitted_pkts;
  }
  std::printf(
      "%lu calls succeeded, %lu failed with the connection, %lu timed out; "
      "%lu connections, %lu packets sent again\n",
      sum.succeeded, sum.unavailable, sum.timed_out, sum.connections, sum.retransmitted_pkts);
  // Programs in which nothing ever went wrong would prove little.
  if (count >= 100) {
    EXPECT_GT(sum.succeeded, count);
    EXPECT_GT(sum.unavailable, count / 10);
    EXPECT_GT(sum.timed_out, count / 10);
    EXPECT_GT(sum.connections, count);
    EXPECT_GT(sum.retransmitted_pkts, count);
    EXPECT_GT(sum.bytes_read, count * 10'000);
    EXPECT_GT(sum.bytes_written, count * 10'000);
  }
}

TEST(RpcSimTest, ASeedAloneRepeatsExactly) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RpcOutcome once = RunRpcProgram(seed);
    RunRpcProgram(seed + 1000);
    const RpcOutcome again = RunRpcProgram(seed);
    EXPECT_EQ(once.digest, again.digest) << seed;
    EXPECT_NE(once.digest, RunRpcProgram(seed + 1).digest) << seed;
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
