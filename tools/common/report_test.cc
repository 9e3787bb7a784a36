#include "tools/common/report.h"

#include <gtest/gtest.h>

#include "tools/common/options.h"

namespace pollux::tools {
namespace {

TEST(ReportTest, ValuesAreFormattedWithUnits) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(12345678), "12,345,678");
  EXPECT_EQ(Bytes(10'239), "10239 B");
  EXPECT_EQ(Bytes(10'240), "10.0 KiB");
  EXPECT_EQ(Rate(1.5e9), "1.500 GB/s");
  EXPECT_EQ(Microseconds(1'234), "1.23 us");
}

TEST(ReportTest, TableAligns) {
  EXPECT_EQ(Table({{"a", "1"}, {"long", "2"}}), "  a     1\n  long  2\n");
}

TEST(ReportTest, CongestionCountersAreAddedToJson) {
  transport::Counters counters;
  counters.rp_cnp_handled = 1;
  counters.rp_cnp_ignored = 2;
  counters.np_cnp_sent = 3;
  counters.np_ecn_marked_roce_packets = 4;
  nlohmann::ordered_json json;
  AddCongestion(counters, &json);
  EXPECT_EQ(json.dump(), R"({"rp_cnp_handled":1,"rp_cnp_ignored":2,"np_cnp_sent":3,)"
                         R"("np_ecn_marked_roce_packets":4})");
}

TEST(ReportTest, ShellQuotedIsOneShellWord) {
  EXPECT_EQ(ShellQuoted("192.0.2.1:/srv/a-b_c"), "192.0.2.1:/srv/a-b_c");
  EXPECT_EQ(ShellQuoted("/srv/a b"), "'/srv/a b'");
  EXPECT_EQ(ShellQuoted("[2001:db8::1]:/srv"), "'[2001:db8::1]:/srv'");
  EXPECT_EQ(ShellQuoted("it's $HOME; `x`"), "'it'\\''s $HOME; `x`'");
  EXPECT_EQ(ShellQuoted("/srv/\xC3\xA4"), "'/srv/\xC3\xA4'");
  EXPECT_EQ(ShellQuoted(""), "''");
}

TEST(ReportTest, UsageErrorsAndFailuresHaveDifferentExitStatuses) {
  EXPECT_EQ(Fail("x", absl::InvalidArgumentError("m")), kExitUsage);
  EXPECT_EQ(Fail("x", absl::UnavailableError("m")), kExitFailure);
}

}  // namespace
}  // namespace pollux::tools
