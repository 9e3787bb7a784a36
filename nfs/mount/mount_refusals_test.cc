#include "nfs/mount/mount_refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;

class MountRefusalsTest : public testing::Test {
 protected:
  const Gid one_ = Gid::FromIpv4(0xC0000209), other_ = Gid::FromIpv4(0xC000020A);
  std::vector<std::string> lines_;
  MountRefusals refusals_{[this](const std::string& line) { lines_.push_back(line); }};
};

TEST_F(MountRefusalsTest, EachClientAndPathIsLoggedOnce) {
  for (int i = 0; i < 3; ++i) {
    refusals_.Write(one_, "/srv", "closed");
    refusals_.Write(one_, "/", "closed");
    refusals_.Write(other_, "/srv", "closed");
  }
  EXPECT_THAT(lines_, ElementsAre("192.0.2.9 may not mount \"/srv\": closed",
                                  "192.0.2.9 may not mount \"/\": closed",
                                  "192.0.2.10 may not mount \"/srv\": closed"));
}

TEST_F(MountRefusalsTest, PathsAreQuotedAndEscaped) {
  refusals_.Write(one_, "/a\n\x1B[2J\"", "closed");
  EXPECT_THAT(lines_, ElementsAre(R"(192.0.2.9 may not mount "/a\n\033[2J\"": closed)"));
}

TEST_F(MountRefusalsTest, LinesPerMinuteAreBounded) {
  for (uint32_t i = 0; i < 3 * MountRefusals::kLinesPerMinute; ++i) {
    refusals_.Write(Gid::FromIpv4(i), "/srv", "closed");
  }
  EXPECT_GE(lines_.size(), MountRefusals::kLinesPerMinute);
  // A minute may end in between.
  EXPECT_LE(lines_.size(), 2 * MountRefusals::kLinesPerMinute);
}

TEST_F(MountRefusalsTest, WithoutALogWriteDoesNothing) {
  MountRefusals(nullptr).Write(one_, "/srv", "closed");
}

}  // namespace
}  // namespace pollux::nfs
