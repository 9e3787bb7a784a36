#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "stack/engine/eal.h"

// Sanitizers make them ten times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kDefaultSeeds = 1000;
#else
constexpr uint64_t kDefaultSeeds = 4000;
#endif
ABSL_FLAG(uint64_t, seeds, kDefaultSeeds, "how many random programs to run");
ABSL_FLAG(uint64_t, first_seed, 1, "the first of them");

namespace pollux::sim {

std::vector<uint64_t> AskedSeeds(uint64_t part) {
  std::vector<uint64_t> seeds;
  for (uint64_t i = part; i < absl::GetFlag(FLAGS_seeds); i += kSeedParts) {
    seeds.push_back(absl::GetFlag(FLAGS_first_seed) + i);
  }
  return seeds;
}

std::string HowToRepeat(uint64_t seed) {
  return absl::StrCat("seed ", seed, "; to repeat: --seeds=1 --first_seed=", seed);
}

}  // namespace pollux::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  // No program would pass, and prove nothing.
  if (absl::GetFlag(FLAGS_seeds) == 0) {
    std::fprintf(stderr, "--seeds=0: give the number of programs to run, at least 1\n");
    return 2;
  }
  if (const absl::Status status = pollux::engine::InitEal(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
