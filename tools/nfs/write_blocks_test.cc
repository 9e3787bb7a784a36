#include "tools/nfs/write_blocks.h"

#include "gtest/gtest.h"

namespace pollux::tools {
namespace {

TEST(NfsWrittenTest, BlocksWithAnotherVerifierAreResent) {
  NfsWritten written(4);
  EXPECT_EQ(written.NextUnsent(0), 0u);
  written.Sent(0, 7);
  written.Sent(1, 7);
  written.Sent(2, 8);
  written.Sent(3, std::nullopt);  // on stable storage already
  EXPECT_EQ(written.NextUnsent(0), 4u);
  EXPECT_FALSE(written.AllSafe());
  EXPECT_EQ(written.Committed(8), 2u);
  EXPECT_EQ(written.NextUnsent(0), 0u);
  EXPECT_EQ(written.NextUnsent(1), 1u);
  EXPECT_EQ(written.NextUnsent(2), 4u);
  written.Sent(0, 8);
  written.Sent(1, 8);
  EXPECT_EQ(written.Committed(8), 0u);
  EXPECT_TRUE(written.AllSafe());
}

TEST(NfsWrittenTest, AnEmptyFileIsSafe) {
  NfsWritten written(0);
  EXPECT_TRUE(written.AllSafe());
  EXPECT_EQ(written.NextUnsent(0), 0u);
}

}  // namespace
}  // namespace pollux::tools
