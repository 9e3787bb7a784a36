// The figures of a benchmark's run, pass by pass, and what they are held against.
#ifndef POLLUX_TESTS_BENCH_FIGURES_H_
#define POLLUX_TESTS_BENCH_FIGURES_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/histogram.h"

namespace pollux::bench {

// One figure, measured as often in each pass.
struct Series {
  std::string unit;
  std::vector<double> values;

  double Median() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
  double Low() const { return *std::min_element(values.begin(), values.end()); }
  double High() const { return *std::max_element(values.begin(), values.end()); }
};

// Of one wire.
struct Figures {
  std::map<std::string, Series> series;
  std::map<std::string, std::unique_ptr<tools::Histogram>> latencies_ns;  // of all passes together
  std::map<std::string, std::string> missing;  // what could not be measured, and why

  void Record(const std::string& name, const char* unit, double value) {
    series[name].unit = unit;
    series[name].values.push_back(value);
  }
  void RecordLatencies(const std::string& name, const tools::Histogram& latency_ns) {
    std::unique_ptr<tools::Histogram>& all = latencies_ns[name];
    if (all == nullptr) all = std::make_unique<tools::Histogram>();
    all->Add(latency_ns);
  }
  // Those of another pass after these.
  void Add(const Figures& pass) {
    for (const auto& [name, one] : pass.series) {
      for (const double value : one.values) Record(name, one.unit.c_str(), value);
    }
    for (const auto& [name, latency_ns] : pass.latencies_ns) RecordLatencies(name, *latency_ns);
    missing.insert(pass.missing.begin(), pass.missing.end());
  }
  // 0 for what was not measured.
  double Median(const std::string& name) const {
    const auto found = series.find(name);
    return found == series.end() ? 0 : found->second.Median();
  }
};

struct Target {
  const char* name;
  const char* above;  // figure / denominator
  const char* below;
  double at_least;
  bool inverse;  // of times: smaller is better, `at_least` is a most
};

// Ratios pass by pass, so that a machine that changes its pace in between spoils none: their
// median.
inline double MedianRatio(const Figures& figures, const Target& target) {
  Series ratios;
  const Series& above = figures.series.at(target.above);
  const Series& below = figures.series.at(target.below);
  for (size_t i = 0; i < above.values.size(); ++i) {
    ratios.values.push_back(above.values[i] / below.values[i]);
  }
  return ratios.Median();
}

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_FIGURES_H_
