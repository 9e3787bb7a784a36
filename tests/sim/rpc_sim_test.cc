#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/rpc_program.h"
#include "tests/sim/seeds.h"

namespace pollux::sim {
namespace {

class RpcSimTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RpcSimTest, EveryProgramBehavesAsSpecified) {
  const std::vector<uint64_t> seeds = AskedSeeds(GetParam());
  RpcOutcome sum;
  for (const uint64_t seed : seeds) {
    const RpcOutcome outcome = RunRpcProgram(seed);
    ASSERT_EQ(outcome.violation, "") << HowToRepeat(seed);
    sum.succeeded += outcome.succeeded;
    sum.unavailable += outcome.unavailable;
    sum.timed_out += outcome.timed_out;
    sum.connections += outcome.connections;
    sum.reconnects += outcome.reconnects;
    sum.duplicates += outcome.duplicates;
    sum.callbacks += outcome.callbacks;
    sum.bytes_read += outcome.bytes_read;
    sum.bytes_written += outcome.bytes_written;
    sum.pieces += outcome.pieces;
    sum.retransmitted_pkts += outcome.retransmitted_pkts;
  }
  std::printf(
      "%lu calls succeeded, %lu failed with the connection, %lu timed out; "
      "%lu connections, %lu made by reconnecting, %lu calls that came twice, %lu by the server; "
      "%lu packets sent again\n",
      sum.succeeded, sum.unavailable, sum.timed_out, sum.connections, sum.reconnects,
      sum.duplicates, sum.callbacks, sum.retransmitted_pkts);
  const uint64_t count = seeds.size();
  // Programs in which nothing ever went wrong would prove little.
  if (count >= 100) {
    EXPECT_GT(sum.succeeded, count);
    EXPECT_GT(sum.unavailable, count / 10);
    EXPECT_GT(sum.timed_out, count / 10);
    EXPECT_GT(sum.connections, count);
    EXPECT_GT(sum.reconnects, count / 10);
    EXPECT_GT(sum.duplicates, 0u);
    EXPECT_GT(sum.callbacks, count);
    EXPECT_GT(sum.retransmitted_pkts, count);
    EXPECT_GT(sum.bytes_read, count * 10'000);
    EXPECT_GT(sum.bytes_written, count * 10'000);
    EXPECT_GT(sum.pieces, count);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, RpcSimTest, ::testing::Range<uint64_t>(0, kSeedParts));

TEST(RpcSimRepetition, TheSameSeedRepeatsTheRunExactly) {
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
