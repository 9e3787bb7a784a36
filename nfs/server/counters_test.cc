#include "nfs/server/counters.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pollux::nfs {
namespace {

TEST(CountersTest, EachCounterIsReportedByName) {
  Counters counters;
  counters.Of(Procedure::kGetattr) = {.calls = 3, .failures = 1};
  counters.Of(Procedure::kCommit) = {.calls = 2};
  counters.bytes_read = 5;
  Stats stats;
  counters.Collect(&stats);
  std::map<std::string, uint64_t> told;
  for (const auto& [name, value] : stats.fields()) told[name] = std::get<uint64_t>(value);
  EXPECT_EQ(told.size(), 2 * kProcedures + 6);
  EXPECT_EQ(told["calls/getattr"], 3u);
  EXPECT_EQ(told["failures/getattr"], 1u);
  EXPECT_EQ(told["calls/commit"], 2u);
  EXPECT_EQ(told["bytes_read"], 5u);
  EXPECT_EQ(counters.calls(), 5u);
}

}  // namespace
}  // namespace pollux::nfs
