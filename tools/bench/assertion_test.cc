#include "tools/bench/assertion.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace pollux::tools {
namespace {

TEST(AssertionTest, ParsesAllPartsOfAnAssertion) {
  const Assertion any = *Assertion::Parse("p99<20us");
  EXPECT_EQ(any.operation, "");
  EXPECT_EQ(any.bytes, std::nullopt);
  EXPECT_EQ(any.metric, "p99");
  EXPECT_EQ(any.relation, "<");
  EXPECT_EQ(any.value, 20e3);
  const Assertion one = *Assertion::Parse("send/64/max<=1.5ms");
  EXPECT_EQ(one.operation, "send");
  EXPECT_EQ(one.bytes, 64u);
  EXPECT_EQ(one.relation, "<=");
  EXPECT_EQ(one.value, 1.5e6);
  EXPECT_EQ(Assertion::Parse("null/rate>250k")->value, 250e3);
  EXPECT_EQ(Assertion::Parse("rate>=1000")->value, 1000);
  EXPECT_EQ(Assertion::Parse("write/bandwidth>1.25GB/s")->value, 1.25e9);
  EXPECT_EQ(Assertion::Parse("write/bandwidth>1.25GB/s")->operation, "write");
}

TEST(AssertionTest, ErrorsNameTheInvalidPart) {
  for (const auto& [text, words] :
       {std::pair("p99", "no relation"),
        {"p99=20us", "no relation"},
        {"p98<20us", "unknown metric 'p98'; the metrics are p50, p99"},
        {"frob/p99<20us", "unknown operation 'frob'; the operations are null, send"},
        {"send/x/p99<20us", "'x' is not a size"},
        {"send/64/2/p99<1us", "[OPERATION/[SIZE/]]METRIC"},
        {"null/64/p99<20us", "no size"},
        {"null/bandwidth>1GB/s", "no size"},
        {"p99<20", "not a time"},
        {"p99<", "not a time"},
        {"p99==20us", "no relation"},
        {"rate>20us", "operations per second"},
        {"bandwidth>5", "bytes per second"}}) {
    const absl::Status status = Assertion::Parse(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_NE(status.message().find(words), std::string::npos) << status;
  }
}

TEST(AssertionTest, AssertionsOutsideThePlanAreRefused) {
  BenchPlan plan;
  ASSERT_TRUE(plan.SetWhat("null,send").ok());
  ASSERT_TRUE(plan.SetSizes("64,4096").ok());
  EXPECT_TRUE(Assertion::Parse("p99<1us")->CheckPlan(plan).ok());
  EXPECT_TRUE(Assertion::Parse("send/64/p99<1us")->CheckPlan(plan).ok());
  EXPECT_TRUE(Assertion::Parse("bandwidth>1B/s")->CheckPlan(plan).ok());
  EXPECT_FALSE(Assertion::Parse("send/65/p99<1us")->CheckPlan(plan).ok());
  EXPECT_NE(Assertion::Parse("read/p99<1us")
                ->CheckPlan(plan)
                .message()
                .find("--measure does not include read"),
            std::string::npos);
  ASSERT_TRUE(plan.SetWhat("null").ok());
  EXPECT_FALSE(Assertion::Parse("bandwidth>1B/s")->CheckPlan(plan).ok());
  ASSERT_TRUE(plan.SetWhat("blocks").ok());
  EXPECT_FALSE(Assertion::Parse("p99<1us")->CheckPlan(plan).ok());
}

LoadResult Hundred(uint64_t ns, uint64_t elapsed_ns) {
  LoadResult load;
  load.operations = 100;
  load.elapsed_ns = elapsed_ns;
  for (int i = 0; i < 100; ++i) load.latency_ns->Record(ns);
  return load;
}

// A SEND of 64 B in 10 us and one of 4096 B in 30 us, a million a second each.
BenchResult Measured() {
  BenchResult result;
  BenchRun& run = result.runs.emplace_back();
  run.passes = 1;
  for (const auto& [bytes, ns] : {std::pair(64u, 10'000u), {4096u, 30'000u}}) {
    BenchRow& row = run.rows.emplace_back();
    row.operation = "send";
    row.bytes = bytes;
    row.latency.Add(Hundred(ns, 1'000'000));
    row.rate.Add(Hundred(ns, 100'000));
  }
  return result;
}

AssertionResult JudgeOne(const std::string& text) {
  return Judge({*Assertion::Parse(text)}, Measured())[0];
}

TEST(JudgeTest, EveryMetricAndRelationIsJudged) {
  for (const char* const met :
       {"p99<31us", "p50<=31us", "max>9us", "p999>=9us", "rate>999k", "rate<=1M",
        "send/64/bandwidth>=0.064GB/s", "send/64/p99<11us", "send/p99<31us"}) {
    EXPECT_TRUE(JudgeOne(met).met()) << met << ": " << JudgeOne(met).Words();
  }
  for (const char* const missed : {"p99<20us", "p50>11us", "max<=9us", "rate>1M", "rate<1M",
                                   "send/4096/p99<11us", "bandwidth>1GB/s"}) {
    EXPECT_FALSE(JudgeOne(missed).met()) << missed;
  }
}

TEST(JudgeTest, WordsNameTheAssertionAndTheValueFound) {
  const AssertionResult result = JudgeOne("max<20us");
  ASSERT_EQ(result.figures.size(), 2u);
  EXPECT_TRUE(result.figures[0].met);
  EXPECT_EQ(result.Words(), "asked max<20us, found 30.000us (send, 4096 B)");
}

TEST(JudgeTest, WithoutAMeasurementAnAssertionIsNotMet) {
  const AssertionResult result = JudgeOne("read/p99<20us");
  EXPECT_FALSE(result.met());
  EXPECT_EQ(result.Words(), "asked read/p99<20us, found no measurement");
}

TEST(JudgeTest, WithoutACompletedOperationAnAssertionIsNotMet) {
  BenchResult result = Measured();
  result.runs[0].rows[1].latency = LoadSeries();
  const AssertionResult judged = Judge({*Assertion::Parse("p99<1s")}, result)[0];
  EXPECT_FALSE(judged.met());
  EXPECT_EQ(judged.Words(), "asked p99<1s, found no completed operation (send, 4096 B)");
}

TEST(JudgeTest, NullCallsHaveNoBandwidth) {
  BenchResult result = Measured();
  result.runs[0].rows.emplace_back().operation = "null";
  const AssertionResult judged = Judge({*Assertion::Parse("bandwidth>1B/s")}, result)[0];
  EXPECT_TRUE(judged.met());
  EXPECT_EQ(judged.figures.size(), 2u);
}

TEST(JudgeTest, JsonShowsTheAssertionAndTheValueFound) {
  const auto json = AssertionsJson({JudgeOne("max<20us")});
  EXPECT_EQ(json[0]["asked"], "max<20us");
  EXPECT_EQ(json[0]["met"], false);
  EXPECT_EQ(json[0]["figures"][1]["found"], "30.000us");
}

TEST(JudgeTest, JunitHasATestCaseForEachAssertion) {
  const std::vector<AssertionResult> results = {JudgeOne("p50<31us"), JudgeOne("max<20us")};
  EXPECT_EQ(AssertionsJunit(results, absl::OkStatus(), 1.5),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites>\n"
            "  <testsuite name=\"pollux bench\" tests=\"2\" failures=\"1\" errors=\"0\" "
            "time=\"1.500\">\n"
            "    <testcase classname=\"pollux.bench\" name=\"p50&lt;31us\"></testcase>\n"
            "    <testcase classname=\"pollux.bench\" name=\"max&lt;20us\">"
            "<failure message=\"asked max&lt;20us, found 30.000us (send, 4096 B)\"/></testcase>\n"
            "  </testsuite>\n"
            "</testsuites>\n");
  const std::string error = AssertionsJunit(results, absl::UnavailableError("\"no\" & <n>"), 0);
  EXPECT_NE(error.find("failures=\"0\" errors=\"2\""), std::string::npos);
  EXPECT_NE(error.find("<error message=\"&quot;no&quot; &amp; &lt;n&gt;\"/>"), std::string::npos);
}

TEST(JudgeTest, JunitIsValidXmlWhateverTheErrorContains) {
  const std::string xml =
      AssertionsJunit({JudgeOne("p50<31us")}, absl::UnavailableError("a\x1b\n\x7f\xff"), 0);
  EXPECT_NE(xml.find("<error message=\"a   \xEF\xBF\xBD\"/>"), std::string::npos) << xml;
}

}  // namespace
}  // namespace pollux::tools
