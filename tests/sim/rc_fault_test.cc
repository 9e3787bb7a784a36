// The simulator finds each planted fault.
#include <gtest/gtest.h>

#include "stack/base/planted_fault.h"
#include "stack/engine/eal.h"
#include "tests/sim/rc_program.h"

#ifndef POLLUX_PLANTED_FAULTS
#error "build through faulty_test (tools/build/faults.bzl)"
#endif

namespace pollux::sim {
namespace {

class RcFaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
  ~RcFaultTest() override { planted_fault = Fault::kNone; }
};

TEST_P(RcFaultTest, IsFound) {
  constexpr uint64_t kSeeds = 200;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    planted_fault = GetParam();
    const std::string violation = RunRcProgram(seed).violation;
    planted_fault = Fault::kNone;
    if (violation.empty()) continue;
    // It is the fault that was found.
    EXPECT_EQ(RunRcProgram(seed).violation, "") << seed;
    return;
  }
  ADD_FAILURE() << "not found by " << kSeeds << " programs";
}

INSTANTIATE_TEST_SUITE_P(Faults, RcFaultTest,
                         ::testing::Values(Fault::kIcrcUnchecked, Fault::kPsnOffByOne,
                                           Fault::kRnrLost, Fault::kStaleKeyAccepted,
                                           Fault::kInvalidationLost, Fault::kFenceIgnored,
                                           Fault::kOneByteBeyond, Fault::kMsnNotWrapped,
                                           Fault::kShortOutOfTurn));

}  // namespace
}  // namespace pollux::sim
