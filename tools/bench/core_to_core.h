// What it costs to pass a cache line from one core to another.
#ifndef POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_
#define POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_

#include <optional>

namespace pollux::tools {

// The cost of one core reading a line that the other wrote, in ns: the median of several rounds
// between the first two CPUs that this process may use; nothing where there is but one. Machines
// differ in it by a factor of five and some flip within minutes, so that a figure without it says
// little.
std::optional<double> CoreToCoreNs();

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_
