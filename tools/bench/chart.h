// Line charts as inline SVG without scripts and external resources, legible on light and dark
// backgrounds.
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
  kCount,    // from 0, only whole numbers
  kLog,      // decades
  kBytes,    // powers of two, labelled in B, KiB, MiB
  kNines,    // fractions below 1, one more nine at equal distances: 0 %, 90 %, 99 %, 99.9 %
  kPercent,  // fractions, 0 % to 100 %
};

struct Axis {
  std::string label;  // with the unit
  Scale scale = Scale::kLinear;
};

struct ChartSeries {
  std::string name;
  // ordered by x; values that a logarithmic scale cannot show are left out
  std::vector<std::pair<double, double>> points;
};

struct Chart {
  // further series are left out, because more cannot be told apart
  static constexpr size_t kMaxSeries = 8;

  std::string title;
  std::string note;  // one or two sentences: what it shows and how to read it
  Axis x, y;
  bool marks = true;  // at each point; curves with many points look better without
  std::vector<ChartSeries> series;
};

// Escapes text for HTML, also in attributes in double quotes.
std::string EscapeHtml(absl::string_view text);
// "64 B", "4 KiB", "1.5 MiB": a whole number if it is a multiple of the unit, otherwise with one
// decimal.
std::string ShortBytes(double bytes);
// "0.25", "3", "1,200": three significant digits, or all digits before the point.
std::string ShortNumber(double number);

// A <figure> with title, SVG and legend. It uses the styles of ChartStyle().
std::string RenderChart(const Chart& chart);
// CSS, for the page's <style>.
std::string ChartStyle();

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_CHART_H_
