// The longest round trips, and what the machine itself contributes to them.
#ifndef POLLUX_TESTS_BENCH_TAIL_H_
#define POLLUX_TESTS_BENCH_TAIL_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/common/histogram.h"

namespace pollux::bench {

// Round trips of NULL calls, one at a time, between two polled cores over rings, and the intervals
// in which one of the same two CPUs stood still. They were measured by turns, for the same time.
struct Tail {
  double seconds = 0;  // of each
  std::unique_ptr<tools::Histogram> calls_ns = std::make_unique<tools::Histogram>();
  // Of both CPUs, from kMinStallNs on: how long a thread that only reads the clock did not run.
  std::unique_ptr<tools::Histogram> stalls_ns = std::make_unique<tools::Histogram>();
  uint64_t clock_reads = 0;  // of both CPUs, in the search for stalls

  static constexpr uint64_t kMinStallNs = 1'000;
};

// Measures both for `seconds` each. Prints progress on standard error.
absl::StatusOr<Tail> MeasureTail(double seconds);

// The same percentile as Histogram::Percentile() for the calls that no stall explains: each stall
// is taken to have delayed one call, from the usual round trip to that and its own length.
uint64_t PercentileWithoutStalls(const Tail& tail, double fraction);

std::string TailText(const Tail& tail);
nlohmann::ordered_json TailJson(const Tail& tail);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_TAIL_H_
