#include "compat/process/log_once.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

TEST(LogOnceTest, LogsOnlyTheFirstMessage) {
  LogOnce tell;
  testing::internal::CaptureStderr();
  tell(absl::InvalidArgumentError("too many"));
  tell(absl::InvalidArgumentError("too few"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "pollux: too many\n");
}

}  // namespace
}  // namespace pollux::compat
