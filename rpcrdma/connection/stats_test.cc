#include "rpcrdma/connection/stats.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pollux::rpcrdma {
namespace {

TEST(RpcStatsTest, CountersOfOneKindAreSummed) {
  Counters one, two;
  one.calls_received = 3;
  two.calls_received = 4;
  Stats stats;
  EXPECT_TRUE(Collect({.topic = "rpc"}, "server", 2, one, &stats));
  EXPECT_TRUE(Collect({.topic = "rpc"}, "server", 1, two, &stats));
  EXPECT_TRUE(Collect({.topic = "rpc"}, "client", 1, one, &stats));
  EXPECT_FALSE(Collect({.topic = "cm"}, "server", 1, one, &stats));
  const std::map<std::string, Stats::Value> told(stats.fields().begin(), stats.fields().end());
  EXPECT_EQ(std::get<uint64_t>(told.at("server/connections")), 3u);
  EXPECT_EQ(std::get<uint64_t>(told.at("server/calls_received")), 7u);
  EXPECT_EQ(std::get<uint64_t>(told.at("client/calls_received")), 3u);
}

}  // namespace
}  // namespace pollux::rpcrdma
