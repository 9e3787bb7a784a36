#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "stack/engine/eal.h"

ABSL_FLAG(uint64_t, seeds, 1000, "how many random programs to run");
ABSL_FLAG(uint64_t, first_seed, 1, "the first of them");

namespace pollux::sim {

std::vector<uint64_t> AskedSeeds() {
  std::vector<uint64_t> seeds(absl::GetFlag(FLAGS_seeds));
  std::iota(seeds.begin(), seeds.end(), absl::GetFlag(FLAGS_first_seed));
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
