// The cost of passing a cache line from one core to another.
#ifndef POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_
#define POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/bench/series.h"

namespace pollux::tools {

// The CPUs on which the calling thread may run.
std::vector<int> UsableCpus();
// Pins the calling thread to a CPU. Returns false if it may not run there.
bool PinThread(int cpu);

inline constexpr uint64_t kCoreToCoreTurns = 2'000;
// The time in ns until one core reads a line that another one wrote: the median of several rounds,
// each of `turns` turns between the first two of `cpus`. It stops after a tenth of a second, which
// only busy CPUs need, and then returns the shortest finished round, or, if there is none, an upper
// bound from the unfinished first one. Returns nothing if there is only one CPU or a thread may not
// run on one of them. Machines differ in this time by a factor of five, and on some it changes
// within minutes, so a benchmark figure without it says little.
std::optional<double> CoreToCoreNs(const std::vector<int>& cpus = UsableCpus(),
                                   uint64_t turns = kCoreToCoreTurns);

enum class CoreDistance : uint8_t { kNear, kFar, kFlipped, kUnmeasured };
// "near", "far", "now near, now far" or "not measured".
const char* DistanceName(CoreDistance distance);
// The distance of the cores during a series of measurements, which are in ns.
CoreDistance DistanceOf(const Series& core_to_core_ns);
// The text in reports if the time was not measured.
inline constexpr char kNoCoreToCore[] = "not measured: this process has only one CPU";

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_
