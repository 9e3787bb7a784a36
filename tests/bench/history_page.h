// The recorded benchmark runs of the project as charts.
#ifndef POLLUX_TESTS_BENCH_HISTORY_PAGE_H_
#define POLLUX_TESTS_BENCH_HISTORY_PAGE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench/page.h"

namespace pollux::bench {

// `lines`: what history.py wrote, a JSON object in each line, oldest first. InvalidArgument with
// the number of the line that is not understood, or if there is none.
absl::StatusOr<tools::Page> HistoryPage(absl::string_view lines);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_HISTORY_PAGE_H_
