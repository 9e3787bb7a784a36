// Assertions about the figures of a benchmark, such as "p99<20us" or "send/64/rate>1M".
#ifndef POLLUX_TOOLS_BENCH_ASSERTION_H_
#define POLLUX_TOOLS_BENCH_ASSERTION_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/run.h"

namespace pollux::tools {

// [OPERATION/[SIZE/]]METRIC RELATION VALUE, without blanks. Without OPERATION the assertion applies
// to every operation that was measured; without SIZE, to every size. RELATION: < <= > >=.
//
//   METRIC                   of                         VALUE
//   p50, p99                 the latency, median of     a time (ns, us, ms, s)
//                            the passes
//   p999, max                the latency, all passes    a time
//   rate                     operations per second,     a number, with k, M or G for thousands,
//                            median of the passes       millions and billions
//   bandwidth                bytes per second, median   a number, with B/s, kB/s, MB/s or GB/s
struct Assertion {
  std::string text;
  std::string operation;          // empty: any
  std::optional<uint32_t> bytes;  // nothing: any
  std::string metric;
  std::string relation;
  double value = 0;  // nanoseconds, operations or bytes per second

  // InvalidArgument, with the accepted forms.
  static absl::StatusOr<Assertion> Parse(const std::string& text);
  // InvalidArgument if `plan` does not measure what the assertion needs.
  absl::Status CheckPlan(const BenchPlan& plan) const;
};

// One figure to which an assertion applies.
struct AssertedFigure {
  std::string name;   // "send, 64 B"
  std::string found;  // "12.300us"
  bool met = false;
};

struct AssertionResult {
  std::string asked;  // as the user wrote it
  std::vector<AssertedFigure> figures;

  // Whether all figures meet the assertion; false if none was measured.
  bool met() const;
  // "asked p99<20us, found 45.200us (send, 64 B)", with each figure that does not meet the
  // assertion.
  std::string Words() const;
};

// Evaluates the assertions, separately for each of the result's runs.
std::vector<AssertionResult> Judge(const std::vector<Assertion>& assertions,
                                   const BenchResult& result);

nlohmann::ordered_json AssertionsJson(const std::vector<AssertionResult>& results);
// A JUnit XML file for CI systems. If `status`, the result of the measurements, is an error, each
// test case gets that error.
std::string AssertionsJunit(const std::vector<AssertionResult>& results, const absl::Status& status,
                            double seconds);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_ASSERTION_H_
