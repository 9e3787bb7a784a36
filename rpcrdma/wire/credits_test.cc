#include "rpcrdma/wire/credits.h"

#include <gtest/gtest.h>

#include "oncrpc/binding.h"

namespace pollux::rpcrdma {
namespace {

// RFC 8166 section 3.3.3
TEST(Credits, OneCreditIsUsableUntilTheFirstGrant) {
  CreditWindow window(32);
  EXPECT_TRUE(window.CanSend());
  window.OnSend();
  EXPECT_FALSE(window.CanSend());
  window.OnReply(8);
  EXPECT_EQ(window.granted(), 8u);
}

// RFC 8166 section 3.3.1
TEST(Credits, WindowFollowsTheLastGrant) {
  CreditWindow window(4);
  window.OnSend();
  window.OnReply(100);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(window.CanSend());
    window.OnSend();
  }
  EXPECT_FALSE(window.CanSend());
  window.OnReply(2);
  EXPECT_FALSE(window.CanSend());
  window.OnReply(0);
  EXPECT_EQ(window.granted(), 1u);
  EXPECT_FALSE(window.CanSend());
  window.OnReply(0);
  EXPECT_FALSE(window.CanSend());
  window.OnReply(0);
  EXPECT_TRUE(window.CanSend());
}

TEST(Credits, GrantIsNeverZeroNorMoreThanPosted) {
  EXPECT_EQ(Grant(0, 16), 1u);
  EXPECT_EQ(Grant(16, 16), 16u);
  EXPECT_EQ(Grant(0xFFFFFFFF, 16), 16u);
}

TEST(Binding, ValidateChecksTheBoundsOfEachProcedure) {
  oncrpc::ProgramBinding binding{.program = 0x20000000, .version = 1};
  EXPECT_FALSE(binding.Validate().ok());
  binding.procedures = {{.number = 0}, {.number = 1, .max_result_bytes = 8}};
  EXPECT_TRUE(binding.Validate().ok());
  EXPECT_EQ(binding.Find(1)->max_result_bytes, 8u);
  EXPECT_EQ(binding.Find(2), nullptr);
  binding.procedures[1].max_result_bytes = 7;
  EXPECT_FALSE(binding.Validate().ok());
  binding.procedures[1] = {.number = 1, .max_eligible_result_bytes = oncrpc::kMaxItemBytes};
  EXPECT_TRUE(binding.Validate().ok());
  ++binding.procedures[1].max_eligible_result_bytes;
  EXPECT_FALSE(binding.Validate().ok());
  binding.procedures[1] = {.number = 0};
  EXPECT_FALSE(binding.Validate().ok());
  binding.procedures.assign(oncrpc::kMaxProcedures + 1, {});
  EXPECT_FALSE(binding.Validate().ok());
}

}  // namespace
}  // namespace pollux::rpcrdma
