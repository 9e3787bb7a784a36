// Line charts as inline SVG: no script, no fetch, legible on light and dark ground.
#ifndef POLLUX_TOOLS_BENCH_CHART_H_
#define POLLUX_TOOLS_BENCH_CHART_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace pollux::tools {

enum class Scale : uint8_t {
  kLinear,   // from 0
  kCount,    // from 0, of what there are no halves
  kLog,      // decades
  kBytes,    // powers of two, told in B, KiB, MiB
  kNines,    // fractions below 1, one more nine at equal distances: 0 %, 90 %, 99 %, 99.9 %
  kPercent,  // fractions, 0 % to 100 %
};

struct Axis {
  std::string label;  // with the unit
  Scale scale = Scale::kLinear;
};

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by x; what a logarithm cannot show is left out
};

struct Chart {
  static constexpr size_t kMaxSeries = 8;  // those after it are left out: eyes tell no more apart

  std::string title;
  std::string note;  // what it shows and how to read it; a sentence or two
  Axis x, y;
  bool marks = true;  // at each point; curves of many points are better without
  std::vector<ChartSeries> series;
};

// For text and for attributes in double quotes.
std::string EscapeHtml(absl::string_view text);
// "64 B", "4 KiB", "1 MiB": exact powers of 1024 in their unit, else with one decimal.
std::string ShortBytes(double bytes);
// "0.25", "3", "1,200": at most three digits that count, or all before the point.
std::string ShortNumber(double number);

// A <figure> with title, SVG and legend. The styles are ChartStyle()'s.
std::string RenderChart(const Chart& chart);
// CSS, for the page's <style>.
std::string ChartStyle();

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_CHART_H_
