#include "tests/bench/bench_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/bench/passes.h"
#include "tests/bench/targets.h"

namespace pollux::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Medians of different passes make no ratio of any of them.
TEST(BenchPageTest, LossChartUsesTheRatiosOfThePasses) {
  Results results;
  for (const auto& [lossless, lossy] : {std::pair(100.0, 10.0), {10.0, 9.0}, {50.0, 40.0}}) {
    Figures pass;
    pass.Record(LossFigure(0), "Gb/s", lossless);
    for (const double loss : kLosses) pass.Record(LossFigure(loss), "Gb/s", lossy);
    RecordRatios(pass);
    results.Add(Wire::kRing, pass);
  }
  const tools::Page page = BenchPage(results, 3, 1, absl::OkStatus());
  const auto section =
      std::find_if(page.sections.begin(), page.sections.end(), [](const tools::PageSection& one) {
        return one.title.find("under loss") != std::string::npos;
      });
  ASSERT_NE(section, page.sections.end());
  const tools::Chart& chart = section->charts.back();
  EXPECT_EQ(chart.title, "Goodput under loss");
  EXPECT_THAT(chart.series[0].points, ElementsAre(Pair(0.1, 0.8), Pair(1, 0.8), Pair(5, 0.8)));
  EXPECT_THAT(chart.series[1].points, ElementsAre(Pair(0.1, 0.8), Pair(1, 0.4), Pair(5, 0.1)));
}

}  // namespace
}  // namespace pollux::bench
