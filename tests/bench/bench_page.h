// The page of tools/dev bench.
#ifndef POLLUX_TESTS_BENCH_BENCH_PAGE_H_
#define POLLUX_TESTS_BENCH_BENCH_PAGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tests/bench/results.h"
#include "tools/bench/page.h"

namespace pollux::bench {

// `status`: if not OK, the error that ended the run before `passes` passes were complete.
tools::Page BenchPage(const Results& results, uint64_t passes, double scale,
                      const absl::Status& status);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_BENCH_PAGE_H_
