// What it costs to pass a cache line from one core to another.
#ifndef POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_
#define POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/bench/series.h"

namespace pollux::tools {

// That the calling thread may run on.
std::vector<int> UsableCpus();
// Has the calling thread run there alone; false where it may not.
bool PinThread(int cpu);

inline constexpr uint64_t kCoreToCoreTurns = 2'000;
// The cost of one core reading a line that the other wrote, in ns: the median of several rounds of
// so many turns between the first two of the CPUs; nothing where there is but one, or a thread may
// not run there. Machines differ
// in it by a factor of five and some flip within minutes, so that a figure without it says little.
std::optional<double> CoreToCoreNs(const std::vector<int>& cpus = UsableCpus(),
                                   uint64_t turns = kCoreToCoreTurns);

enum class CoreDistance : uint8_t { kNear, kFar, kFlipped, kUnmeasured };
// "near", "far", "now near, now far" or "not measured".
const char* DistanceName(CoreDistance distance);
// How far cores were apart while all of these were measured, in ns.
CoreDistance DistanceOf(const Series& core_to_core_ns);
// What a report says instead of a cost that was not measured.
inline constexpr char kNoCoreToCore[] = "not measured: this process has one CPU alone";

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_CORE_TO_CORE_H_
