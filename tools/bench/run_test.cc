#include "tools/bench/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/bench/run_report.h"

namespace pollux::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchPlanTest, WhatIsMeasured) {
  BenchPlan plan;
  EXPECT_TRUE(plan.verbs());
  EXPECT_TRUE(plan.SetWhat("null,blocks").ok());
  EXPECT_FALSE(plan.verbs());
  EXPECT_TRUE(plan.SetWhat("read").ok());
  EXPECT_TRUE(plan.verbs());
  for (const char* wrong : {"", "frob", "read,,null", "read "}) {
    EXPECT_EQ(plan.SetWhat(wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_THAT(plan.what, ElementsAre("read"));
}

TEST(BenchPlanTest, Sizes) {
  BenchPlan plan;
  EXPECT_TRUE(plan.SetSizes("all").ok());
  ASSERT_EQ(plan.sizes.size(), 20u);
  EXPECT_EQ(plan.sizes.front(), 2u);
  EXPECT_EQ(plan.sizes.back(), 1u << 20);
  EXPECT_TRUE(plan.SetSizes("1,1048576").ok());
  EXPECT_THAT(plan.sizes, ElementsAre(1u, 1048576u));
  std::string many = "1";
  for (int i = 0; i < 32; ++i) many += ",1";
  for (const std::string& wrong :
       {std::string(), std::string("0"), std::string("1048577"), std::string("1,x"), many}) {
    EXPECT_EQ(plan.SetSizes(wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

BenchRow Row(const std::string& operation, std::optional<uint32_t> bytes) {
  BenchRow row{.operation = operation, .bytes = bytes, .window = 4};
  for (LoadResult* result : {&row.latency, &row.rate}) {
    result->operations = 1000;
    result->elapsed_ns = 1'000'000;
    for (int i = 0; i < 1000; ++i) result->latency_ns->Record(5'000);
  }
  return row;
}

TEST(BenchReportTest, TextJsonAndPageShowEachRow) {
  const BenchPlan plan;
  BenchRun run;
  run.rows.push_back(Row("null", std::nullopt));
  run.rows.push_back(Row("write", 64));
  run.rows.push_back(Row("write", 1 << 20));
  run.read_blocks = BlocksResult{.bytes = 1'000'000, .seconds = 0.001};
  run.core_to_core_before_ns = 59.6;
  run.core_to_core_after_ns = 520;
  const std::string text = BenchText(run);
  for (const char* part :
       {"1,000,000", "64 B", "1 MiB", "1.000 GB/s", "60 ns before, 520 ns after"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const auto json = BenchJson(plan, run);
  ASSERT_EQ(json["measurements"].size(), 3u);
  EXPECT_FALSE(json["measurements"][0].contains("bytes"));
  EXPECT_EQ(json["measurements"][1]["bytes"], 64);
  EXPECT_DOUBLE_EQ(json["measurements"][1]["rate"]["bytes_per_second"], 64e6);
  EXPECT_DOUBLE_EQ(json["measurements"][1]["latency"]["latency_us"]["p50"], 5.0);
  EXPECT_FALSE(json.contains("write_bytes_per_second"));
  EXPECT_DOUBLE_EQ(json["core_to_core_ns"]["before"], 59.6);
  EXPECT_DOUBLE_EQ(json["core_to_core_ns"]["after"], 520);
  const Page page = BenchPage(plan, run, {{"server", "192.0.2.1"}});
  EXPECT_EQ(page.conditions[0].second, "192.0.2.1");
  EXPECT_EQ(page.conditions.back().second, "60 ns before, 520 ns after");
  ASSERT_EQ(page.sections.size(), 3u);
  EXPECT_EQ(page.sections[0].charts.size(), 4u);
  EXPECT_EQ(page.sections[1].charts.size(), 2u);
  EXPECT_EQ(page.sections[2].tables[0].rows.size(), 3u);
}

// What --rate asks for stands on the page.
TEST(BenchReportTest, OpenLoopIsNamed) {
  BenchPlan plan;
  plan.per_second = 1000;
  const Page page = BenchPage(plan, BenchRun(), {});
  EXPECT_THAT(page.conditions[0].second, HasSubstr("open loop, 1,000 operations/s"));
}

}  // namespace
}  // namespace pollux::tools
