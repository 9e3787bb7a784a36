// What the figures of a run are held against.
#ifndef POLLUX_TESTS_BENCH_TARGETS_H_
#define POLLUX_TESTS_BENCH_TARGETS_H_

#include <string>
#include <vector>

#include "tests/bench/figures.h"
#include "tools/bench/verdict.h"

namespace pollux::bench {

// Of one pass over one wire: each ratio whose figures it has, from measurements that are neighbours
// in time.
void RecordRatios(Figures& pass);

// Of one wire, judged. Ratios that no pass has are left out.
std::vector<tools::Verdict> Verdicts(const Figures& figures);
// Null where there is none of that name.
const tools::Verdict* Find(const std::vector<tools::Verdict>& verdicts, const std::string& name);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_TARGETS_H_
