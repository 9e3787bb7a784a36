// The page of tools/dev bench.
#ifndef POLLUX_TESTS_BENCH_BENCH_PAGE_H_
#define POLLUX_TESTS_BENCH_BENCH_PAGE_H_

#include <cstdint>
#include <vector>

#include "tests/bench/figures.h"
#include "tests/bench/results.h"
#include "tools/bench/page.h"

namespace pollux::bench {

// The targets of one wire, judged. Those whose figures were not measured are left out.
std::vector<tools::Verdict> Verdicts(const Figures& figures);

tools::Page BenchPage(const Results& results, uint64_t passes, double scale);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_BENCH_PAGE_H_
