// The figures of a benchmark run, pass by pass.
#ifndef POLLUX_TESTS_BENCH_FIGURES_H_
#define POLLUX_TESTS_BENCH_FIGURES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/series.h"
#include "tools/common/histogram.h"

namespace pollux::bench {

using tools::Series;

// The figures for one wire.
struct Figures {
  std::map<std::string, Series> series;
  std::map<std::string, std::unique_ptr<tools::Histogram>> latencies_ns;  // of all passes together
  std::map<std::string, Series> ratios;                                   // one per pass
  std::map<std::string, std::string> missing;  // figures that could not be measured, and the reason

  void Record(const std::string& name, const char* unit, double value) {
    series[name].unit = unit;
    series[name].values.push_back(value);
  }
  void RecordLatencies(const std::string& name, const tools::Histogram& latency_ns) {
    std::unique_ptr<tools::Histogram>& all = latencies_ns[name];
    if (all == nullptr) all = std::make_unique<tools::Histogram>();
    all->Add(latency_ns);
  }
  // Appends the figures of another pass.
  void Add(const Figures& pass) {
    for (const auto& [name, one] : pass.series) {
      for (const double value : one.values) Record(name, one.unit.c_str(), value);
    }
    for (const auto& [name, latency_ns] : pass.latencies_ns) RecordLatencies(name, *latency_ns);
    for (const auto& [name, of_pass] : pass.ratios) {
      std::vector<double>& all = ratios[name].values;
      all.insert(all.end(), of_pass.values.begin(), of_pass.values.end());
    }
    missing.insert(pass.missing.begin(), pass.missing.end());
  }
  // Returns 0 for a figure that was not measured.
  double Median(const std::string& name) const {
    const auto found = series.find(name);
    return found == series.end() ? 0 : found->second.Median();
  }
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_FIGURES_H_
