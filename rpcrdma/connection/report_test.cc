#include "rpcrdma/connection/report.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pollux::rpcrdma {
namespace {

TEST(RpcReportTest, OfOneKindTogether) {
  Counters one, two;
  one.calls_received = 3;
  two.calls_received = 4;
  Report report;
  EXPECT_TRUE(Tell({.topic = "rpc"}, "server", 2, one, &report));
  EXPECT_TRUE(Tell({.topic = "rpc"}, "server", 1, two, &report));
  EXPECT_TRUE(Tell({.topic = "rpc"}, "client", 1, one, &report));
  EXPECT_FALSE(Tell({.topic = "cm"}, "server", 1, one, &report));
  const std::map<std::string, Report::Value> told(report.fields().begin(), report.fields().end());
  EXPECT_EQ(std::get<uint64_t>(told.at("server/connections")), 3u);
  EXPECT_EQ(std::get<uint64_t>(told.at("server/calls_received")), 7u);
  EXPECT_EQ(std::get<uint64_t>(told.at("client/calls_received")), 3u);
}

}  // namespace
}  // namespace pollux::rpcrdma
