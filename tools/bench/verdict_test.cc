#include "tools/bench/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pollux::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SeriesTest, MedianLowAndHighOfASeriesAreKnown) {
  const Series series{"us", {3, 1, 9, 2, 4}};
  EXPECT_EQ(series.Median(), 3);
  EXPECT_EQ(series.Low(), 1);
  EXPECT_EQ(series.High(), 9);
  EXPECT_EQ((Series{"us", {8, 1, 4, 2}}).Median(), 3);
  EXPECT_EQ(Series().Median(), 0);
  EXPECT_EQ(Series().Low(), 0);
  EXPECT_EQ(Series().High(), 0);
}

TEST(SeriesTest, RatiosPairMeasurementsOfTheSamePass) {
  Series above, below;
  for (const double pace : {1.0, 10.0, 4.0}) {  // of a machine that changes it
    above.values.push_back(3 * pace);
    below.values.push_back(2 * pace);
  }
  EXPECT_THAT(Ratios(above, below).values, ElementsAre(1.5, 1.5, 1.5));
  below.values.pop_back();
  EXPECT_THAT(Ratios(above, below).values, ElementsAre(1.5, 1.5));
}

Verdict Of(double ratio, bool at_most, std::optional<double> target, std::optional<double> aim) {
  return {.name = "a / b",
          .ratios = {"", {ratio - 0.25, ratio, ratio + 0.5}},
          .target = target,
          .at_most = at_most,
          .aim = aim};
}

TEST(VerdictTest, TargetAndAimAreMetAtTheirLimits) {
  EXPECT_EQ(VerdictWords(Of(0.5, false, 0.5, {})), "met");
  EXPECT_EQ(VerdictWords(Of(0.49, false, 0.5, {})), "not met");
  EXPECT_EQ(VerdictWords(Of(0.64, false, 0.5, 0.65)), "target met, aim of 0.65 not met");
  EXPECT_EQ(VerdictWords(Of(0.65, false, 0.5, 0.65)), "target met, aim of 0.65 met");
  EXPECT_EQ(VerdictWords(Of(1.7, true, 1.7, 1.4)), "target met, aim of 1.40 not met");
  EXPECT_EQ(VerdictWords(Of(1.4, true, 1.7, 1.4)), "target met, aim of 1.40 met");
  EXPECT_EQ(VerdictWords(Of(1.71, true, 1.7, 1.4)), "not met");
  EXPECT_EQ(VerdictWords(Of(100, true, {}, {})), "no target");
  EXPECT_EQ(TargetWords(Of(1, true, 1.7, 1.4)), "at most 1.70");
  EXPECT_EQ(TargetWords(Of(1, false, 0.5, {})), "at least 0.50");
  EXPECT_EQ(TargetWords(Of(1, false, {}, {})), "none");
}

TEST(VerdictTest, AVerdictUnmetByAnotherIsNotMet) {
  Verdict verdict = Of(1, true, 3, 2);
  EXPECT_EQ(VerdictWords(verdict), "target met, aim of 2.00 met");
  verdict.unmet_by = "the bulk starved";
  EXPECT_FALSE(verdict.met());
  EXPECT_EQ(VerdictWords(verdict), "not met: the bulk starved");
  const auto json = VerdictsJson({verdict})["a / b"];
  EXPECT_EQ(json["met"], false);
  EXPECT_EQ(json["aim_met"], false);
  EXPECT_EQ(json["unmet_by"], "the bulk starved");
}

TEST(VerdictTest, FewPassesDoNotCount) {
  EXPECT_EQ(WhyUncounted(kMinPasses, CoreDistance::kNear), "");
  EXPECT_THAT(WhyUncounted(kMinPasses - 1, CoreDistance::kFar), HasSubstr("4 passes"));
  EXPECT_THAT(WhyUncounted(1, CoreDistance::kFlipped), HasSubstr("1 pass, "));
}

// What stands above the line may have been measured with near cores, and what stands below with far
// ones.
TEST(VerdictTest, PassesWithChangingCoreDistanceDoNotCount) {
  EXPECT_THAT(WhyUncounted(kMinPasses, CoreDistance::kFlipped),
              AllOf(StartsWith("the cores were now near, now far"), HasSubstr("do not count")));
}

TEST(VerdictTest, PassesWithUnknownCoreDistanceDoNotCount) {
  EXPECT_THAT(WhyUncounted(kMinPasses, CoreDistance::kUnmeasured),
              AllOf(StartsWith("core to core not measured"), HasSubstr("do not count")));
  EXPECT_THAT(WhyUncounted(1, CoreDistance::kUnmeasured),
              AllOf(HasSubstr("1 pass, "), HasSubstr("core to core not measured")));
}

TEST(VerdictTest, TextAndJsonShowTheVerdict) {
  const std::vector<Verdict> verdicts = {Of(0.75, false, 0.5, 0.65)};
  EXPECT_EQ(VerdictsText({}), "");
  EXPECT_THAT(VerdictsText(verdicts), HasSubstr("0.75     0.50     1.25   at least 0.50"));
  const auto json = VerdictsJson(verdicts);
  EXPECT_EQ(json["a / b"]["median"], 0.75);
  EXPECT_EQ(json["a / b"]["low"], 0.5);
  EXPECT_EQ(json["a / b"]["high"], 1.25);
  EXPECT_EQ(json["a / b"]["at_least"], 0.5);
  EXPECT_EQ(json["a / b"]["met"], true);
  EXPECT_EQ(json["a / b"]["aim"], 0.65);
  EXPECT_EQ(json["a / b"]["aim_met"], true);
  const auto unjudged = VerdictsJson({Of(1, true, {}, {})})["a / b"];
  EXPECT_FALSE(unjudged.contains("at_most"));
  EXPECT_FALSE(unjudged.contains("met"));
  EXPECT_FALSE(unjudged.contains("aim"));
  EXPECT_TRUE(VerdictsJson({}).empty());
}

}  // namespace
}  // namespace pollux::tools
