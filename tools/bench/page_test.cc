#include "tools/bench/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PageTest, ShowsEverySectionAndVerdict) {
  Page page;
  page.title = "A <title>";
  page.lead = "What was measured.";
  page.conditions = {{"kernel", "Linux & more"}};
  page.sections.push_back({.title = "A section",
                           .note = "A note.",
                           .verdicts = {{"a / b", {"", {0.5, 0.58, 0.6}}, 0.5, false, 0.65},
                                        {"c / d", {"", {1.98}}, 1.7, true, {}},
                                        {"e / f", {"", {7}}, {}, true, {}}},
                           .charts = {{.title = "A chart", .series = {{"curve", {{1, 2}}}}}},
                           .tables = {{"All of it", {"figure", "median"}, {{"SEND", "1.5"}}}}});
  const std::string html = RenderPage(page);
  for (const char* part :
       {"<h1>A &lt;title&gt;</h1>", "Linux &amp; more", "<h2>A section</h2>", "A note.",
        "<td>0.58</td><td>0.50</td><td>0.60</td><td>at least 0.50</td>",
        "<td>at least 0.50</td><td class=\"met\">\u2713 target met, aim of 0.65 not met</td>",
        "<td>at most 1.70</td><td class=\"missed\">\u2717 not met</td>",
        "<td>none</td><td class=\"unjudged\">no target</td>", "<h3>A chart</h3>",
        "<th scope=\"row\">SEND</th><td>1.5</td>"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  // It stands alone.
  for (const char* part : {"<script", "http:", "https:", "src="}) {
    EXPECT_THAT(html, Not(HasSubstr(part)));
  }
}

TEST(PageTest, ChartsShowTheDistributionOfAHistogram) {
  Histogram latency_ns;
  for (int i = 0; i < 999; ++i) latency_ns.Record(1'000);
  latency_ns.Record(50'000);
  const Chart percentiles = PercentileChart("p", {{"all", &latency_ns}});
  ASSERT_EQ(percentiles.series.size(), 1u);
  const auto& by_percentile = percentiles.series[0].points;
  ASSERT_EQ(by_percentile.size(), 4u);
  EXPECT_EQ(by_percentile[0].first, 0);
  EXPECT_DOUBLE_EQ(by_percentile[1].first, 0.999);
  EXPECT_NEAR(by_percentile[1].second, 1, 1.0 / 64);
  EXPECT_LT(by_percentile[3].first, 1);
  EXPECT_NEAR(by_percentile[3].second, 50, 50.0 / 64);
  const Chart distribution = CdfChart("c", {{"all", &latency_ns}});
  const auto& cumulative = distribution.series[0].points;
  EXPECT_DOUBLE_EQ(cumulative.back().second, 1);
  EXPECT_DOUBLE_EQ(cumulative[1].second, 0.999);
}

TEST(PageTest, ConditionsDescribeTheMachine) {
  std::string all;
  for (const auto& [name, value] : MachineConditions()) {
    EXPECT_NE(value, "") << name;
    absl::StrAppend(&all, name, "=", value, "\n");
  }
  EXPECT_THAT(all, HasSubstr("Linux"));
  EXPECT_THAT(all, HasSubstr("UTC"));
}

TEST(PageTest, FileIsWrittenCompleteOrNotAtAll) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "page.html";
  std::filesystem::remove(path);
  {
    PageFile file(path);
    EXPECT_TRUE(file.status().ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  PageFile file(path);
  Page page;
  page.title = "complete";
  EXPECT_TRUE(file.Write(page).ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), RenderPage(page));

  EXPECT_FALSE(PageFile("/nonexistent/page.html").status().ok());
  PageFile none("");
  EXPECT_TRUE(none.status().ok());
  EXPECT_TRUE(none.Write(page).ok());
}

}  // namespace
}  // namespace pollux::tools
