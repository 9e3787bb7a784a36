// The targets for the figures of a run.
#ifndef POLLUX_TESTS_BENCH_TARGETS_H_
#define POLLUX_TESTS_BENCH_TARGETS_H_

#include <string>
#include <vector>

#include "tests/bench/figures.h"
#include "tools/bench/verdict.h"

namespace pollux::bench {

// Adds the ratios of one pass over one wire, as far as it has their figures. The two figures of a
// ratio are measured directly one after the other.
void RecordRatios(Figures& pass);

// The verdicts for one wire. Ratios that no pass has are left out.
std::vector<tools::Verdict> Verdicts(const Figures& figures);
// Returns null if there is none of that name.
const tools::Verdict* Find(const std::vector<tools::Verdict>& verdicts, const std::string& name);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_TARGETS_H_
