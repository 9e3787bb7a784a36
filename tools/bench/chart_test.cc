#include "tools/bench/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace pollux::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ChartTest, NumbersAreFormattedBriefly) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(0.25), "0.25");
  EXPECT_EQ(ShortNumber(12.345), "12.3");
  EXPECT_EQ(ShortNumber(999.7), "1000");
  EXPECT_EQ(ShortNumber(1234567), "1,234,567");
  EXPECT_EQ(ShortNumber(-1234), "-1,234");
  EXPECT_EQ(ShortBytes(2), "2 B");
  EXPECT_EQ(ShortBytes(1536), "1.5 KiB");
  EXPECT_EQ(ShortBytes(1 << 20), "1 MiB");
}

TEST(ChartTest, NamesAreEscapedAsText) {
  EXPECT_EQ(EscapeHtml("<a b=\"c\" d='e'>&"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
  Chart chart;
  chart.title = chart.x.label = chart.y.label = "<script>";
  chart.series.push_back({"<script>", {{1, 1}, {2, 2}}});
  EXPECT_THAT(RenderChart(chart), Not(HasSubstr("<script>")));
}

TEST(ChartTest, EachSeriesHasACurveMarksAndALegendEntry) {
  Chart chart{.title = "t",
              .note = "",
              .x = {"bytes of a message", Scale::kBytes},
              .y = {"Gb/s", Scale::kLog},
              .series = {{"SEND", {{2, 0.1}, {1024, 10}, {1 << 20, 90}}},
                         {"READ", {{2, 0.2}, {1024, 20}, {1 << 20, 80}}}}};
  const std::string html = RenderChart(chart);
  EXPECT_EQ(Count(html, "class=\"curve\""), 4u);  // and those of the legend
  EXPECT_EQ(Count(html, "</circle>"), 3u);
  EXPECT_EQ(Count(html, "</rect>"), 3u);
  EXPECT_EQ(Count(html, "<li>"), 2u);
  for (const char* part : {">Gb/s<", ">bytes of a message<", ">1 KiB<", "SEND: 1 MiB, 90"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(ChartTest, MarksCanBeLeftOut) {
  Chart chart{.title = "", .note = "", .marks = false, .series = {{"s", {{1, 1}, {2, 2}}}}};
  EXPECT_EQ(Count(RenderChart(chart), "<circle"), 0u);
  chart.marks = true;
  EXPECT_EQ(Count(RenderChart(chart), "<circle"), 3u);
}

TEST(ChartTest, PointsOutsideTheScaleAreLeftOut) {
  Chart chart;
  chart.x.scale = Scale::kLog;
  chart.y.scale = Scale::kNines;
  chart.series.push_back({"s", {{0, 0.5}, {-1, 0.5}, {10, 1}, {10, 0.99}, {NAN, 0.9}}});
  const std::string html = RenderChart(chart);
  EXPECT_EQ(Count(html, "</circle>"), 1u);
  EXPECT_EQ(Count(html, "nan"), 0u);
  EXPECT_EQ(Count(html, "inf"), 0u);
}

TEST(ChartTest, CountScalesHaveNoFractions) {
  Chart chart;
  chart.y.scale = Scale::kLog;
  chart.series.push_back({"s", {{1, 1}, {2, 1}}});
  chart.x.scale = Scale::kLinear;
  EXPECT_THAT(RenderChart(chart), HasSubstr(">1.5<"));
  chart.x.scale = Scale::kCount;
  EXPECT_THAT(RenderChart(chart), Not(HasSubstr(">1.5<")));
  EXPECT_THAT(RenderChart(chart), HasSubstr(">2<"));
}

TEST(ChartTest, AnEmptyChartIsRendered) {
  for (const Scale scale : {Scale::kLinear, Scale::kCount, Scale::kLog, Scale::kBytes,
                            Scale::kNines, Scale::kPercent}) {
    Chart chart;
    chart.x.scale = chart.y.scale = scale;
    EXPECT_EQ(Count(RenderChart(chart), "nan"), 0u);
    chart.series.push_back({"one", {{0.5, 0.5}}});
    EXPECT_EQ(Count(RenderChart(chart), "</circle>"), 1u);
  }
}

TEST(ChartTest, SeriesAboveTheMaximumAreLeftOut) {
  Chart chart;
  chart.series.resize(Chart::kMaxSeries + 1, {"s", {{1, 1}}});
  EXPECT_EQ(Count(RenderChart(chart), "<li>"), Chart::kMaxSeries);
}

}  // namespace
}  // namespace pollux::tools
