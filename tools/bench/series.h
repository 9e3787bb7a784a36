// One figure of a benchmark, pass by pass.
#ifndef POLLUX_TOOLS_BENCH_SERIES_H_
#define POLLUX_TOOLS_BENCH_SERIES_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace pollux::tools {

// With fewer passes, neither a median nor its spread is meaningful.
inline constexpr size_t kMinPasses = 5;

// Each pass contributes the same number of values. For an empty series, all functions return 0.
struct Series {
  std::string unit;
  std::vector<double> values;

  // For an even number of values, the mean of the two middle ones.
  double Median() const {
    if (values.empty()) return 0;
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
  double Low() const {
    return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  }
  double High() const {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }
};

// The ratios value by value, so that a change of the machine's speed between passes does not affect
// them. The result is as long as the shorter series.
inline Series Ratios(const Series& above, const Series& below) {
  Series ratios;
  for (size_t i = 0; i < std::min(above.values.size(), below.values.size()); ++i) {
    ratios.values.push_back(above.values[i] / below.values[i]);
  }
  return ratios;
}

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_SERIES_H_
