#include "rpcrdma/tirpc/upper_layer.h"

#include <gtest/gtest.h>

namespace pollux::rpcrdma::tirpc {
namespace {

UpperLayer Store() {
  UpperLayer upper = UpperLayer::Default(0x20000001, 1);
  upper.binding.procedures = {{.number = 0},
                              {.number = 1,
                               .max_argument_bytes = 64,
                               .max_eligible_argument_bytes = 5001,
                               .max_result_bytes = 4,
                               .max_eligible_arguments = 2}};
  upper.items = {{.procedure = 1, .arguments = {.offsets = {8, 24}, .max_bytes = 5001}}};
  return upper;
}

TEST(UpperLayer, AnyProgramHasADefaultBinding) {
  const UpperLayer upper = UpperLayer::Default(0x20000001, 3);
  EXPECT_TRUE(upper.binding.Validate().ok());
  EXPECT_EQ(upper.binding.Find(77)->max_argument_bytes, kDefaultMaxBytes);
  EXPECT_EQ(upper.binding.Find(77)->max_eligible_result_bytes, 0u);
  EXPECT_TRUE(upper.ArgumentsOf(77).offsets.empty());
  EXPECT_GT(upper.LargestMessage(), kDefaultMaxBytes);
}

TEST(UpperLayer, ItemsAreFoundByProcedure) {
  const UpperLayer upper = Store();
  EXPECT_EQ(upper.ArgumentsOf(1).offsets.size(), 2u);
  EXPECT_TRUE(upper.ResultsOf(1).offsets.empty());
  EXPECT_TRUE(upper.ArgumentsOf(0).offsets.empty());
}

TEST(UpperLayer, ProtectionAddsItsBytesToTheBounds) {
  const UpperLayer upper = Store();
  const oncrpc::ProgramBinding with = upper.WithProtection();
  EXPECT_TRUE(with.Validate().ok());
  // Tokens.
  EXPECT_GE(with.Find(0)->max_argument_bytes, kMaxTokenBytes);
  // Two items of 5,001 bytes and their pads lie in the stream.
  EXPECT_EQ(with.Find(1)->max_argument_bytes, 64 + 2 * 5004 + kMaxProtectionBytes);
  EXPECT_GE(upper.LargestMessage(), with.Find(1)->max_argument_bytes);
}

TEST(UpperLayer, BoundsStayWithinTheLargestItem) {
  UpperLayer upper = Store();
  upper.binding.procedures[1].max_eligible_argument_bytes = oncrpc::kMaxItemBytes;
  EXPECT_TRUE(upper.WithProtection().Validate().ok());
  EXPECT_EQ(upper.LargestMessage(), oncrpc::kMaxItemBytes);
}

}  // namespace
}  // namespace pollux::rpcrdma::tirpc
