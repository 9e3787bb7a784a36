// The simulator finds planted faults through RPC-over-RDMA too.
#include <gtest/gtest.h>

#include "stack/base/planted_fault.h"
#include "stack/engine/eal.h"
#include "tests/sim/rpc_program.h"

#ifndef POLLUX_PLANTED_FAULTS
#error "build through faulty_test (tools/build/faults.bzl)"
#endif

namespace pollux::sim {
namespace {

class RpcFaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
  ~RpcFaultTest() override { planted_fault = Fault::kNone; }
};

TEST_P(RpcFaultTest, IsFound) {
  constexpr uint64_t kSeeds = 200;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    planted_fault = GetParam();
    const std::string violation = RunRpcProgram(seed).violation;
    planted_fault = Fault::kNone;
    if (violation.empty()) continue;
    // It is the fault that was found.
    EXPECT_EQ(RunRpcProgram(seed).violation, "") << seed;
    return;
  }
  ADD_FAILURE() << "not found by " << kSeeds << " programs";
}

INSTANTIATE_TEST_SUITE_P(Faults, RpcFaultTest,
                         ::testing::Values(Fault::kIcrcUnchecked, Fault::kPsnOffByOne,
                                           Fault::kStaleKeyAccepted, Fault::kInvalidationLost,
                                           Fault::kDuplicateRun, Fault::kReceiveNotKept));

}  // namespace
}  // namespace pollux::sim
