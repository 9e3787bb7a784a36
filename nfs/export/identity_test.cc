#include "nfs/export/identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "nfs/export/export_for_test.h"

namespace pollux::nfs {
namespace {

// The way to the test's directory need not be everybody's: names are seen from it.
class IdentityTest : public ExportOnDisk {
 protected:
  bool CanRead(const char* name) { return Fd(openat(tree_->root().get(), name, O_RDONLY)).ok(); }
};

TEST_F(IdentityTest, OnlyRightsOfTheUserAndItsGroupsApply) {
  MakeFile("users", "x", 0600);
  ASSERT_EQ(chown(Path("users").c_str(), kUser, 0), 0);
  MakeFile("groups", "x", 0040);
  ASSERT_EQ(chown(Path("groups").c_str(), 0, 77), 0);
  ASSERT_TRUE(identity_.Become({.uid = kUser, .gid = kGroup, .groups = {}}));
  EXPECT_TRUE(CanRead("users"));
  EXPECT_FALSE(CanRead("groups"));
  ASSERT_TRUE(identity_.Become({.uid = kUser + 1, .gid = kGroup, .groups = {5, 77}}));
  EXPECT_FALSE(CanRead("users"));
  EXPECT_TRUE(CanRead("groups"));
  ASSERT_TRUE(identity_.Become({.uid = kUser + 1, .gid = 77, .groups = {}}));
  EXPECT_TRUE(CanRead("groups"));
  ASSERT_TRUE(identity_.BecomeServer());
  EXPECT_TRUE(CanRead("users"));
}

TEST_F(IdentityTest, NewFilesHaveTheOwnerAndTheRequestedMode) {
  ASSERT_TRUE(identity_.Become({.uid = kUser, .gid = kGroup, .groups = {}}));
  EXPECT_TRUE(Fd(openat(tree_->root().get(), "made", O_CREAT | O_WRONLY, 0666)).ok());
  ASSERT_TRUE(identity_.BecomeServer());
  EXPECT_EQ(Stat("made").st_uid, kUser);
  EXPECT_EQ(Stat("made").st_gid, kGroup);
  EXPECT_EQ(Stat("made").st_mode & 0777, 0666u);
}

}  // namespace
}  // namespace pollux::nfs
