// The seeds for a run of random programs: --seeds (their number) and --first_seed. The library
// contains main(), which parses these flags and starts the EAL.
#ifndef POLLUX_TESTS_SIM_SEEDS_H_
#define POLLUX_TESTS_SIM_SEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace pollux::sim {

// Returns one of kSeedParts parts of the seeds. A test with one instance per part can be sharded.
inline constexpr uint64_t kSeedParts = 8;
std::vector<uint64_t> AskedSeeds(uint64_t part);

// The flags that repeat a program, for failure messages.
std::string HowToRepeat(uint64_t seed);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_SEEDS_H_
