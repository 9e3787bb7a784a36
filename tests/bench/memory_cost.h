// What objects cost in memory, measured at the allocator.
#ifndef POLLUX_TESTS_BENCH_MEMORY_COST_H_
#define POLLUX_TESTS_BENCH_MEMORY_COST_H_

#include <string>
#include <vector>

namespace pollux::bench {

struct MemoryCost {
  std::string what;
  double bytes;  // of one
  double most;   // the bound that a test keeps
};

// Makes some hundred of each and divides what the heap has grown by. EAL must be initialised;
// nothing else may allocate meanwhile.
std::vector<MemoryCost> MeasureMemoryCosts();

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_MEMORY_COST_H_
