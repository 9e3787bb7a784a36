#include "tests/bench/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/passes.h"

namespace pollux::bench {
namespace {

using ::testing::ElementsAre;

TEST(TargetsTest, AVerdictUsesTheRatiosOfThePasses) {
  Figures all;
  for (const auto& [mine, plus_work] : {std::pair(6.0, 10.0), {20.0, 40.0}, {7.0, 10.0}}) {
    Figures pass;
    pass.Record("SEND 64 B stream", "M/s", mine);
    pass.Record("+work 64 B stream", "M/s", plus_work);
    RecordRatios(pass);
    all.Add(pass);
  }
  const auto verdicts = Verdicts(all);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].name, "64 B SEND stream / +work");
  EXPECT_THAT(verdicts[0].ratios.values, ElementsAre(0.6, 0.5, 0.7));
  EXPECT_EQ(verdicts[0].value(), 0.6);
  EXPECT_TRUE(verdicts[0].met());
  EXPECT_EQ(verdicts[0].aim, 0.65);
  EXPECT_FALSE(verdicts[0].aim_met());
}

// A pass that measures a figure several times, by turns with the other, has one ratio.
TEST(TargetsTest, EachPassHasOneRatio) {
  Figures pass;
  for (const double pace : {1.0, 10.0, 4.0}) {
    pass.Record("READ 1 MiB", "Gb/s", 9 * pace);
    pass.Record("WRITE 1 MiB", "Gb/s", 10 * pace);
  }
  RecordRatios(pass);
  EXPECT_THAT(pass.ratios.at("1 MiB READ / WRITE").values, ElementsAre(0.9));
}

// Small messages are quickest beside bulk that stands still.
TEST(TargetsTest, StarvedBulkFailsTheVerdictOfSmallMessages) {
  for (const double bulk : {20.0, 0.1}) {
    Figures pass;
    pass.Record("1,000 small messages beside bulk, p99", "us", 110);
    pass.Record("1,000 small messages alone, p99", "us", 100);
    pass.Record(kBulkAlone, "Gb/s", 80);
    pass.Record(kBulkBesideSmall, "Gb/s", bulk);
    RecordRatios(pass);
    const auto verdicts = Verdicts(pass);
    const tools::Verdict* small = Find(verdicts, "small messages beside bulk / alone, p99");
    const tools::Verdict* share = Find(verdicts, "1 MiB WRITE beside small messages / alone");
    ASSERT_NE(small, nullptr);
    ASSERT_NE(share, nullptr);
    EXPECT_DOUBLE_EQ(share->value(), bulk / 80);
    EXPECT_EQ(share->met(), bulk > 1);
    EXPECT_EQ(small->met(), bulk > 1);
    EXPECT_EQ(small->unmet_by, bulk > 1 ? "" : "the bulk starved");
  }
}

// A peer that fails in one pass costs that pass its ratio, and nothing else.
TEST(TargetsTest, APassWithoutAPeerHasNoRatio) {
  Figures all;
  for (const bool failed : {false, true, false}) {
    Figures pass;
    pass.Record("WRITE 1 MiB", "Gb/s", 60);
    if (!failed) pass.Record("UCX tcp 1 MiB", "Gb/s", 40);
    RecordRatios(pass);
    all.Add(pass);
  }
  const auto verdicts = Verdicts(all);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].ratios.values, ElementsAre(1.5, 1.5));
  EXPECT_FALSE(verdicts[0].target);
}

}  // namespace
}  // namespace pollux::bench
