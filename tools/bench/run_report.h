// What came of a run of `pollux bench`, for people and for programs.
#ifndef POLLUX_TOOLS_BENCH_RUN_REPORT_H_
#define POLLUX_TOOLS_BENCH_RUN_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/page.h"
#include "tools/bench/run.h"

namespace pollux::tools {

std::string BenchText(const BenchRun& run);
nlohmann::ordered_json BenchJson(const BenchPlan& plan, const BenchRun& run);
// `conditions` come before those of the plan.
Page BenchPage(const BenchPlan& plan, const BenchRun& run,
               std::vector<std::pair<std::string, std::string>> conditions);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_RUN_REPORT_H_
