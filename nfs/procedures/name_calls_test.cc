#include "nfs/procedures/name_calls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "nfs/export/export_for_test.h"

namespace pollux::nfs {
namespace {

class NameCallsTest : public ExportOnDisk {
 protected:
  Diropargs3 Root(std::string_view name) { return {.dir = ExportOnDisk::Root(), .name = {name}}; }
};

TEST_F(NameCallsTest, LookupFindsASingleName) {
  MakeFile("f", "text");
  const LookupRes found = Lookup(context_, Root("f"));
  ASSERT_EQ(found.status, Nfsstat3::kOk);
  EXPECT_EQ(found.resok.object, HandleOf("f"));
  EXPECT_EQ(found.resok.obj_attributes->size, 4u);
  EXPECT_EQ(found.resok.dir_attributes->type, Ftype3::kDir);
  const LookupRes missing = Lookup(context_, Root("none"));
  EXPECT_EQ(missing.status, Nfsstat3::kNoent);
  EXPECT_TRUE(missing.resfail.has_value());
  EXPECT_EQ(Lookup(context_, Root("")).status, Nfsstat3::kInval);
  const std::string longest(255, 'n'), longer(256, 'n');
  EXPECT_EQ(Lookup(context_, Root(longest)).status, Nfsstat3::kNoent);
  EXPECT_EQ(Lookup(context_, Root(longer)).status, Nfsstat3::kNametoolong);
  EXPECT_EQ(Lookup(context_, {.dir = HandleOf("f"), .name = {"x"}}).status, Nfsstat3::kNotdir);
  ASSERT_EQ(chmod(directory_.c_str(), 0744), 0);
  EXPECT_EQ(Lookup(context_, Root("f")).status, Nfsstat3::kAcces);
}

TEST_F(NameCallsTest, ReadlinkReturnsTheTarget) {
  const std::string text = "../../" + std::string(3000, 't');
  ASSERT_EQ(symlink(text.c_str(), Path("l").c_str()), 0);
  const ReadlinkRes read = Readlink(context_, {.symlink = HandleOf("l")});
  ASSERT_EQ(read.status, Nfsstat3::kOk);
  EXPECT_EQ(std::string(read.resok.data.bytes.begin(), read.resok.data.bytes.end()), text);
  MakeFile("f", "text");
  EXPECT_EQ(Readlink(context_, {.symlink = HandleOf("f")}).status, Nfsstat3::kInval);
}

TEST_F(NameCallsTest, RemoveAndRmdirCheckTheType) {
  MakeFile("f", "text");
  ASSERT_EQ(mkdir(Path("d").c_str(), 0755), 0);
  MakeFile("d/f", "text");
  EXPECT_EQ(Remove(context_, Root("d")).status, Nfsstat3::kIsdir);
  EXPECT_EQ(Rmdir(context_, Root("f")).status, Nfsstat3::kNotdir);
  EXPECT_EQ(Rmdir(context_, Root("d")).status, Nfsstat3::kNotempty);
  EXPECT_EQ(Rmdir(context_, Root(".")).status, Nfsstat3::kInval);
  const RemoveRes removed = Remove(context_, Root("f"));
  ASSERT_EQ(removed.status, Nfsstat3::kOk);
  EXPECT_TRUE(removed.resok.before.has_value());
  EXPECT_NE(removed.resok.before->mtime, removed.resok.after->mtime);
  EXPECT_EQ(Remove(context_, {.dir = HandleOf("d"), .name = {"f"}}).status, Nfsstat3::kAcces);
  ASSERT_EQ(chmod(Path("d").c_str(), 0777), 0);
  EXPECT_EQ(Remove(context_, {.dir = HandleOf("d"), .name = {"f"}}).status, Nfsstat3::kOk);
  EXPECT_EQ(Rmdir(context_, Root("d")).status, Nfsstat3::kOk);
  EXPECT_EQ(Remove(context_, Root("f")).status, Nfsstat3::kNoent);
}

TEST_F(NameCallsTest, RenameMovesBetweenDirectoriesAndOverAnExistingFile) {
  MakeFile("f", "one");
  MakeFile("g", "two");
  ASSERT_EQ(mkdir(Path("d").c_str(), 0777), 0);
  const NfsFh3 handle = HandleOf("f");
  const RenameRes same = Rename(context_, {.from = Root("f"), .to = Root("g")});
  ASSERT_EQ(same.status, Nfsstat3::kOk);
  EXPECT_TRUE(same.resok.fromdir_wcc.before.has_value());
  EXPECT_TRUE(same.resok.todir_wcc.before.has_value());
  EXPECT_EQ(Text("g"), "one");
  const RenameRes moved =
      Rename(context_, {.from = Root("g"), .to = {.dir = HandleOf("d"), .name = {"h"}}});
  ASSERT_EQ(moved.status, Nfsstat3::kOk);
  EXPECT_EQ(HandleOf("d/h"), handle);
  EXPECT_EQ(Rename(context_, {.from = Root("none"), .to = Root("x")}).status, Nfsstat3::kNoent);
  EXPECT_EQ(Rename(context_, {.from = Root(".."), .to = Root("x")}).status, Nfsstat3::kInval);
}

// RFC 1813 section 3.3.14: it is atomic to the client, so that a target is replaced or untouched.
TEST_F(NameCallsTest, AFailedRenameChangesNothing) {
  MakeFile("f", "text");
  ASSERT_EQ(mkdir(Path("d").c_str(), 0777), 0);
  EXPECT_NE(Rename(context_, {.from = Root("d"), .to = Root("f")}).status, Nfsstat3::kOk);
  EXPECT_EQ(Rename(context_, {.from = Root("none"), .to = Root("f")}).status, Nfsstat3::kNoent);
  EXPECT_EQ(Text("f"), "text");
  EXPECT_TRUE(S_ISDIR(Stat("d").st_mode));
}

TEST_F(NameCallsTest, LinkCreatesANameForTheSameFile) {
  MakeFile("f", "text", 0666);
  const LinkRes linked = Link(context_, {.file = HandleOf("f"), .link = Root("g")});
  ASSERT_EQ(linked.status, Nfsstat3::kOk);
  EXPECT_EQ(linked.resok.file_attributes->nlink, 2u);
  EXPECT_EQ(HandleOf("g"), HandleOf("f"));
  EXPECT_EQ(Link(context_, {.file = HandleOf("f"), .link = Root("g")}).status, Nfsstat3::kExist);
  EXPECT_EQ(Link(context_, {.file = ExportOnDisk::Root(), .link = Root("h")}).status,
            Nfsstat3::kPerm);
}

TEST_F(NameCallsTest, RenameAndLinkToAnotherExportFailWithXdev) {
  MakeFile("f", "text", 0666);
  ASSERT_EQ(mkdir(Path("other").c_str(), 0777), 0);
  Export other = exported_;
  other.directory = Path("other");
  const auto tree = ExportTree::Open(other, key_);
  ASSERT_TRUE(tree.ok()) << tree.status();
  const Diropargs3 there{.dir = *(*tree)->HandleOf((*tree)->root()), .name = {"g"}};
  EXPECT_EQ(Rename(context_, {.from = Root("f"), .to = there}).status, Nfsstat3::kXdev);
  EXPECT_EQ(Link(context_, {.file = HandleOf("f"), .link = there}).status, Nfsstat3::kXdev);
  EXPECT_EQ(Text("f"), "text");
}

TEST_F(NameCallsTest, AReadOnlyExportRefusesChanges) {
  MakeFile("f", "text");
  rights_.read_only = true;
  EXPECT_EQ(Remove(context_, Root("f")).status, Nfsstat3::kRofs);
  EXPECT_EQ(Rmdir(context_, Root("f")).status, Nfsstat3::kRofs);
  EXPECT_EQ(Rename(context_, {.from = Root("f"), .to = Root("g")}).status, Nfsstat3::kRofs);
  EXPECT_EQ(Link(context_, {.file = HandleOf("f"), .link = Root("g")}).status, Nfsstat3::kRofs);
  EXPECT_EQ(Text("f"), "text");
}

}  // namespace
}  // namespace pollux::nfs
