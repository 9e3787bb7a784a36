// The results of `pollux bench`, for people and for programs.
#ifndef POLLUX_TOOLS_BENCH_RUN_REPORT_H_
#define POLLUX_TOOLS_BENCH_RUN_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/page.h"
#include "tools/bench/run.h"

namespace pollux::tools {

std::string BenchText(const BenchPlan& plan, const BenchResult& result);
// The figures of the run with the most passes; those of other runs are in "apart".
nlohmann::ordered_json BenchJson(const BenchPlan& plan, const BenchResult& result);
// `conditions` come before those of the plan.
Page BenchPage(const BenchPlan& plan, const BenchResult& result,
               std::vector<std::pair<std::string, std::string>> conditions);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_RUN_REPORT_H_
