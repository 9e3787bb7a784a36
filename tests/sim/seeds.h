// The seeds that a run of random programs is asked for: --seeds (how many) and --first_seed. Its
// library brings main(), which reads them and starts the EAL.
#ifndef POLLUX_TESTS_SIM_SEEDS_H_
#define POLLUX_TESTS_SIM_SEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace pollux::sim {

// A part of them; a test whose parts are instances (kSeedParts) can be sharded.
inline constexpr uint64_t kSeedParts = 8;
std::vector<uint64_t> AskedSeeds(uint64_t part);

// Which flags repeat a program, for the message of a failure.
std::string HowToRepeat(uint64_t seed);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_SEEDS_H_
