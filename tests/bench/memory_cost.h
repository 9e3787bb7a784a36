// The memory that objects take, measured at the allocator.
#ifndef POLLUX_TESTS_BENCH_MEMORY_COST_H_
#define POLLUX_TESTS_BENCH_MEMORY_COST_H_

#include <string>
#include <vector>

namespace pollux::bench {

struct MemoryCost {
  std::string what;
  double bytes;  // per object
  double most;   // the limit that a test checks
};

// Creates some hundred objects of each kind and divides the growth of the heap by their number. EAL
// must be initialised; nothing else may allocate memory meanwhile.
std::vector<MemoryCost> MeasureMemoryCosts();

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_MEMORY_COST_H_
