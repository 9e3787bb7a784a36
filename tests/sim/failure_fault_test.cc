// The simulator finds each planted fault.
#include <gtest/gtest.h>

#include "stack/base/planted_fault.h"
#include "stack/engine/eal.h"
#include "tests/sim/failure_program.h"

#ifndef POLLUX_PLANTED_FAULTS
#error "build through faulty_test (tools/build/faults.bzl)"
#endif

namespace pollux::sim {
namespace {

class FailureFaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
  ~FailureFaultTest() override { planted_fault = Fault::kNone; }
};

TEST_P(FailureFaultTest, IsFound) {
  constexpr uint64_t kSeeds = 200;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    planted_fault = GetParam();
    const std::string violation = RunFailureProgram(seed).violation;
    planted_fault = Fault::kNone;
    if (violation.empty()) continue;
    // It is the fault that was found.
    EXPECT_EQ(RunFailureProgram(seed).violation, "") << seed;
    return;
  }
  ADD_FAILURE() << "not found by " << kSeeds << " programs";
}

INSTANTIATE_TEST_SUITE_P(Faults, FailureFaultTest,
                         ::testing::Values(Fault::kIcrcUnchecked, Fault::kPsnOffByOne,
                                           Fault::kRnrLost, Fault::kStaleKeyAccepted,
                                           Fault::kOneByteBeyond, Fault::kReceiveUnflushed,
                                           Fault::kGapUnnoticed, Fault::kOverrunUnnoticed));

}  // namespace
}  // namespace pollux::sim
