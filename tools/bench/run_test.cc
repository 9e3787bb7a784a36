#include "tools/bench/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "tools/bench/run_report.h"

namespace pollux::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BenchPlanTest, SetWhatSelectsTheOperations) {
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
  EXPECT_TRUE(plan.SetWhat("pairs,null,pairs").ok());
  EXPECT_THAT(plan.what, ElementsAre("pairs", "null"));
}

TEST(BenchPlanTest, AnOpenLoopNeedsASuitableOperation) {
  BenchPlan plan;
  plan.per_second = 500;
  EXPECT_TRUE(plan.Check().ok());
  ASSERT_TRUE(plan.SetWhat("blocks,pairs,beside").ok());
  EXPECT_EQ(plan.Check().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(plan.SetWhat("blocks,write").ok());
  EXPECT_TRUE(plan.Check().ok());
  ASSERT_TRUE(plan.SetWhat("blocks").ok());
  plan.per_second = 0;
  EXPECT_TRUE(plan.Check().ok());
}

TEST(BenchPlanTest, SizesAreParsed) {
  BenchPlan plan;
  EXPECT_TRUE(plan.SetSizes("all").ok());
  ASSERT_EQ(plan.sizes.size(), 20u);
  EXPECT_EQ(plan.sizes.front(), 2u);
  EXPECT_EQ(plan.sizes.back(), 1u << 20);
  EXPECT_TRUE(plan.SetSizes("1,1048576").ok());
  EXPECT_THAT(plan.sizes, ElementsAre(1u, 1048576u));
  EXPECT_TRUE(plan.SetSizes("64,2,64").ok());
  EXPECT_THAT(plan.sizes, ElementsAre(64u, 2u));
  std::string many = "1";
  for (int bytes = 2; bytes <= 33; ++bytes) many += "," + std::to_string(bytes);
  for (const std::string& wrong :
       {std::string(), std::string("0"), std::string("1048577"), std::string("1,x"), many}) {
    EXPECT_EQ(plan.SetSizes(wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(BenchPlanTest, QueuePairCountsAreParsed) {
  BenchPlan plan;
  EXPECT_TRUE(plan.SetPairs("16,1,16,128").ok());
  EXPECT_THAT(plan.pairs, ElementsAre(1u, 16u, 128u));
  for (const char* wrong : {"", "0", "129", "1,x"}) {
    EXPECT_EQ(plan.SetPairs(wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_TRUE(plan.SetWhat("pairs").ok());
  EXPECT_TRUE(plan.verbs());
  EXPECT_TRUE(plan.SetWhat("beside").ok());
  EXPECT_TRUE(plan.verbs());
}

// A thousand operations, each of which took so many microseconds, in as many milliseconds.
LoadResult Load(uint64_t us) {
  LoadResult result;
  result.operations = 1000;
  result.elapsed_ns = us * 1'000'000;
  for (int i = 0; i < 1000; ++i) result.latency_ns->Record(us * 1'000);
  return result;
}

BenchRow Row(const std::string& operation, std::optional<uint32_t> bytes, uint64_t us) {
  BenchRow row{.operation = operation, .bytes = bytes, .window = 4};
  row.latency.Add(Load(us));
  row.rate.Add(Load(us));
  row.core_to_core_ns.values = {60, 61, 62};
  return row;
}

// Of a machine so many times slower.
BenchRun OnePass(uint64_t slower, CoreDistance distance = CoreDistance::kNear) {
  BenchRun pass;
  pass.distance = distance;
  pass.passes = 1;
  pass.rows.push_back(Row("null", std::nullopt, 3 * slower));
  pass.rows.push_back(Row("send", 64, 2 * slower));
  pass.rows.push_back(Row("write", 1 << 20, 9 * slower));
  pass.rows.push_back(Row("read", 1 << 20, 10 * slower));
  for (const uint32_t count : {1, 16}) {
    PairsRow row{.queue_pairs = count};
    row.per_second.values = {1e6 * (count == 1 ? 2 : 1) / static_cast<double>(slower)};
    pass.pairs.push_back(row);
  }
  pass.small_pairs = 15;
  pass.alone.Add(Load(10 * slower));
  pass.beside.Add(Load(40 * slower));
  pass.bulk_alone.Add(Load(9 * slower));
  pass.bulk_beside.Add(Load(45 * slower));
  pass.read_blocks.values = {1e9 / static_cast<double>(slower)};
  pass.core_to_core_ns.values = {60, 61, 62};
  return pass;
}

BenchRun Passes(std::initializer_list<uint64_t> slower) {
  BenchRun run;
  run.distance = CoreDistance::kNear;
  for (const uint64_t one : slower) run.Add(OnePass(one));
  return run;
}

TEST(BenchRunTest, PassesAreCombined) {
  const BenchRun run = Passes({1, 5, 2});
  EXPECT_EQ(run.passes, 3u);
  ASSERT_EQ(run.rows.size(), 4u);
  const BenchRow* null = run.Find("null", std::nullopt);
  ASSERT_NE(null, nullptr);
  EXPECT_EQ(null->latency.operations, 3000u);
  EXPECT_EQ(null->latency.latency_ns->count(), 3000u);
  EXPECT_EQ(null->latency.per_second.values.size(), 3u);
  EXPECT_NEAR(null->latency.median_us.Low(), 3, 0.1);
  EXPECT_NEAR(null->latency.median_us.High(), 15, 0.3);
  EXPECT_EQ(null->core_to_core_ns.values.size(), 9u);
  EXPECT_EQ(run.Find("send", 65), nullptr);
  ASSERT_EQ(run.pairs.size(), 2u);
  EXPECT_EQ(run.pairs[1].per_second.values.size(), 3u);
  EXPECT_EQ(run.beside.operations, 3000u);
  EXPECT_EQ(run.bulk_beside.operations, 3000u);
}

TEST(BenchRunTest, VerdictsUseRatiosWithinAPass) {
  const std::vector<Verdict> verdicts = BenchVerdicts(Passes({1, 5, 2}));
  ASSERT_EQ(verdicts.size(), 5u);
  EXPECT_EQ(verdicts[0].name, "1 MiB READ / WRITE");
  EXPECT_NEAR(verdicts[0].value(), 0.9, 1e-9);
  EXPECT_NEAR(verdicts[0].ratios.High(), 0.9, 1e-9);
  EXPECT_EQ(VerdictWords(verdicts[0]), "target met, aim of 0.95 not met");
  EXPECT_EQ(verdicts[1].name, "bulk beside 64 B on 15 queue pairs / alone");
  EXPECT_NEAR(verdicts[1].value(), 0.2, 1e-9);
  EXPECT_EQ(VerdictWords(verdicts[1]), "met");
  EXPECT_EQ(verdicts[2].name, "64 B on 15 queue pairs beside bulk / alone, p99");
  EXPECT_NEAR(verdicts[2].value(), 4, 0.1);
  EXPECT_EQ(VerdictWords(verdicts[2]), "not met");
  EXPECT_EQ(verdicts[3].name, "NULL RPC round trip / 64 B SEND");
  EXPECT_EQ(VerdictWords(verdicts[3]), "no target");
  EXPECT_EQ(verdicts[4].name, "64 B SENDs on 16 queue pairs / 1");
  EXPECT_DOUBLE_EQ(verdicts[4].value(), 0.5);
  EXPECT_TRUE(BenchVerdicts(BenchRun()).empty());
}

// Nothing helps small messages as much as bulk that stands still.
TEST(BenchRunTest, StarvedBulkFailsTheVerdictOfSmallMessages) {
  BenchRun run = Passes({1});
  run.beside = LoadSeries();
  run.beside.Add(Load(10));
  EXPECT_EQ(VerdictWords(BenchVerdicts(run)[2]), "met");
  run.bulk_beside = LoadSeries();
  run.bulk_beside.Add(Load(9'000));
  const std::vector<Verdict> verdicts = BenchVerdicts(run);
  EXPECT_EQ(VerdictWords(verdicts[1]), "not met");
  EXPECT_EQ(VerdictWords(verdicts[2]), "not met: the bulk starved");
}

TEST(BenchReportTest, TextJsonAndPageShowEachRow) {
  const BenchPlan plan;
  BenchResult result;
  result.runs.push_back(Passes({1, 1, 1, 1, 2}));
  const std::string text = BenchText(BenchPlan(), result);
  for (const char* part : {"null", "1 MiB", "333,333", "166,666 to 333,333",
                           "1 MiB blocks by RPC, read", "64 B SENDs, 16 queue pairs, 1 core",
                           "1 MiB WRITEs beside small messages", "target met, aim of 0.95 not met",
                           "near: 61 ns (60 to 62), around each measurement of 5 passes"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("do not count")));
  const auto json = BenchJson(plan, result);
  EXPECT_EQ(json["passes"], 5);
  EXPECT_EQ(json["cores"], "near");
  EXPECT_EQ(json["verdicts_count"], true);
  ASSERT_EQ(json["measurements"].size(), 4u);
  EXPECT_FALSE(json["measurements"][0].contains("bytes"));
  const auto& send = json["measurements"][1];
  EXPECT_EQ(send["bytes"], 64);
  EXPECT_DOUBLE_EQ(send["rate"]["bytes_per_second"], 64 * 500'000.0);
  EXPECT_DOUBLE_EQ(send["rate"]["per_second_low"], 250'000);
  EXPECT_EQ(send["latency"]["operations"], 5000);
  EXPECT_NEAR(send["latency"]["p50_us"]["high"].get<double>(), 4, 0.1);
  EXPECT_EQ(send["core_to_core_ns"]["low"], 60);
  EXPECT_EQ(json["pairs"][1]["queue_pairs"], 16);
  EXPECT_EQ(json["pairs"][1]["per_second"]["median"], 1e6);
  EXPECT_EQ(json["beside_bulk"]["queue_pairs"], 15);
  EXPECT_EQ(json["ratios"]["1 MiB READ / WRITE"]["met"], true);
  EXPECT_FALSE(json.contains("write_bytes_per_second"));
  EXPECT_EQ(json["read_bytes_per_second"], 1e9);
  EXPECT_EQ(json["read_bytes_per_second_low"], 5e8);
  EXPECT_FALSE(json.contains("apart"));
  const Page page = BenchPage(plan, result, {{"server", "192.0.2.1"}});
  EXPECT_EQ(page.conditions[0].second, "192.0.2.1");
  EXPECT_THAT(page.conditions.back().second, HasSubstr("61 ns (60 to 62)"));
  ASSERT_EQ(page.sections.size(), 5u);
  EXPECT_EQ(page.sections[0].verdicts.size(), 5u);
  EXPECT_EQ(page.sections[1].charts.size(), 10u);
  EXPECT_EQ(page.sections[2].charts.size(), 2u);
  EXPECT_EQ(page.sections[3].charts.size(), 1u);
  EXPECT_EQ(page.sections[4].tables[0].rows.size(), 4u);
}

// Figures of passes with near cores and of passes with far ones are not mixed.
TEST(BenchReportTest, NearAndFarPassesAreReportedSeparately) {
  BenchResult result;
  result.runs.push_back(Passes({1, 1, 1}));
  result.runs.push_back(OnePass(5, CoreDistance::kFar));
  const std::string text = BenchText(BenchPlan(), result);
  for (const char* part : {"cores near\n", "cores far\n", "3 passes, fewer than 5", "1 pass, "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const auto json = BenchJson(BenchPlan(), result);
  EXPECT_EQ(json["passes"], 3);
  EXPECT_EQ(json["verdicts_count"], false);
  ASSERT_EQ(json["apart"].size(), 1u);
  EXPECT_EQ(json["apart"][0]["cores"], "far");
  EXPECT_EQ(json["apart"][0]["passes"], 1);
  const Page page = BenchPage(BenchPlan(), result, {});
  ASSERT_EQ(page.sections.size(), 10u);
  EXPECT_EQ(page.sections[0].title, "Ratios and verdicts, cores near");
  EXPECT_THAT(page.sections[0].note, HasSubstr("do not count"));
  EXPECT_EQ(page.sections[5].title, "Ratios and verdicts, cores far");
}

// More cores of the client than one are a curve of their own.
TEST(BenchReportTest, EachNumberOfCoresHasItsOwnCurve) {
  BenchResult result;
  result.runs.push_back(OnePass(1));
  result.runs[0].pairs = {{.queue_pairs = 1, .cores = 1},
                          {.queue_pairs = 16, .cores = 2},
                          {.queue_pairs = 8, .cores = 1}};
  for (PairsRow& row : result.runs[0].pairs) row.per_second.values = {1e6 * row.cores};
  const Page page = BenchPage(BenchPlan(), result, {});
  ASSERT_EQ(page.sections[3].charts.size(), 2u);
  EXPECT_THAT(page.sections[3].charts[0].series[0].points,
              ElementsAre(std::pair(1.0, 1.0), std::pair(16.0, 2.0)));
  EXPECT_THAT(page.sections[3].charts[1].series[0].points,
              ElementsAre(std::pair(1.0, 1.0), std::pair(2.0, 2.0)));
}

// What --rate asks for stands everywhere, with what was reached.
TEST(BenchReportTest, ThePageNamesTheOpenLoop) {
  BenchPlan plan;
  plan.per_second = 1000;
  const Page none = BenchPage(plan, BenchResult(), {});
  EXPECT_THAT(none.conditions[0].second, HasSubstr("open loop, 1,000 operations/s"));
  EXPECT_THAT(none.conditions[0].second, HasSubstr("beside bulk closed loop"));
  EXPECT_THAT(none.conditions.back().second, HasSubstr("due by then still run"));
  BenchResult result;
  result.runs.push_back(OnePass(1));
  result.runs[0].rows.resize(2);
  result.runs[0].rows[0].latency.per_second.values = {960};
  result.runs[0].rows[1].latency.per_second.values = {940};
  EXPECT_THAT(BenchText(BenchPlan(), result), Not(HasSubstr("open loop")));
  const std::string text = BenchText(plan, result);
  EXPECT_THAT(text, HasSubstr("open loop: 1,000/s requested, 960/s reached\n"));
  EXPECT_THAT(text,
              HasSubstr("open loop: 1,000/s requested, 940/s reached: the rate was not reached"));
  const auto json = BenchJson(plan, result);
  EXPECT_EQ(json["measurements"][0]["latency"]["rate_reached"], true);
  EXPECT_EQ(json["measurements"][1]["latency"]["rate_reached"], false);
  EXPECT_FALSE(
      BenchJson(BenchPlan(), result)["measurements"][0]["latency"].contains("rate_reached"));
  const Page page = BenchPage(plan, result, {});
  const PageTable& paces = page.sections.back().tables[1];
  ASSERT_EQ(paces.rows.size(), 2u);
  EXPECT_EQ(paces.rows[0].back(), "open loop: 1,000/s requested, 960/s reached");
  plan.per_second = 100;
  EXPECT_THAT(BenchText(plan, result), HasSubstr("open loop: 100/s requested\n"))
      << "of 20 operations";
  EXPECT_FALSE(BenchJson(plan, result)["measurements"][0]["latency"].contains("rate_reached"));
}

// Figures whose cores' distance nobody knows are no figures of near ones.
TEST(BenchReportTest, AnUnmeasuredCoreDistanceIsReported) {
  BenchResult result;
  result.runs.push_back(Passes({1, 1, 1, 1, 1}));
  result.runs[0].distance = CoreDistance::kUnmeasured;
  result.runs[0].core_to_core_ns.values.clear();
  const std::string text = BenchText(BenchPlan(), result);
  EXPECT_THAT(text, HasSubstr("core to core, here: not measured"));
  EXPECT_THAT(text, HasSubstr("these verdicts do not count"));
  const auto json = BenchJson(BenchPlan(), result);
  EXPECT_EQ(json["cores"], "not measured");
  EXPECT_EQ(json["verdicts_count"], false);
  EXPECT_FALSE(json.contains("core_to_core_ns"));
  const Page page = BenchPage(BenchPlan(), result, {});
  EXPECT_THAT(page.conditions.back().second, HasSubstr("not measured"));
  EXPECT_THAT(page.sections[0].note, HasSubstr("do not count"));
}

// What ended a run before its last pass stands on the page of those that were complete.
TEST(BenchReportTest, ThePageShowsWhyTheRunEnded) {
  BenchResult result;
  result.runs.push_back(OnePass(1));
  result.status = absl::CancelledError("interrupted");
  const Page page = BenchPage(BenchPlan(), result, {});
  EXPECT_TRUE(std::any_of(page.conditions.begin(), page.conditions.end(),
                          [](const auto& one) { return one.second == "interrupted"; }));
}

TEST(BenchReportTest, SingularNounsAreUsedForOne) {
  BenchResult result;
  result.runs.push_back(OnePass(1));
  result.runs[0].small_pairs = 1;
  EXPECT_THAT(BenchText(BenchPlan(), result), HasSubstr("64 B on 1 queue pair beside bulk"));
  EXPECT_THAT(BenchText(BenchPlan(), result), Not(HasSubstr(" 1 queue pairs")));
}

// Of no limit it is not said that it is 0.
TEST(BenchReportTest, ThePageShowsTheLimitsOfAMeasurement) {
  BenchPlan plan;
  EXPECT_EQ(BenchPage(plan, BenchResult(), {}).conditions.back().second,
            "at most 100,000 operations and 0.2 s");
  plan.seconds = 0;
  EXPECT_EQ(BenchPage(plan, BenchResult(), {}).conditions.back().second,
            "at most 100,000 operations");
}

// However slow, the columns stand apart.
TEST(BenchReportTest, ColumnsOfLargeFiguresStaySeparate) {
  BenchResult result;
  result.runs.push_back(Passes({1'000'000}));
  result.runs[0].rows.resize(1);
  const std::string text = BenchText(BenchPlan(), result);
  const std::string line = text.substr(text.find("\nnull") + 1);
  const std::vector<std::string> columns =
      absl::StrSplit(line.substr(0, line.find('\n')), ' ', absl::SkipEmpty());
  EXPECT_EQ(columns.size(), 15u) << line;  // of 11, two are "low to high"
}

}  // namespace
}  // namespace pollux::tools
