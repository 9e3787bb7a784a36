#include "nfs/procedures/attribute_calls.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <vector>

#include "nfs/export/export_for_test.h"
#include "nfs/v3/files.h"

namespace pollux::nfs {
namespace {

class AttributeCallsTest : public ExportOnDisk {
 protected:
  Nfsstat3 Set(const std::string& name, const Sattr3& wanted) {
    return Setattr(context_, {.object = HandleOf(name), .new_attributes = wanted}).status;
  }
  uint32_t Granted(const std::string& name) {
    return Access(context_, {.object = HandleOf(name), .access = 0x3F}).resok.access;
  }
};

TEST_F(AttributeCallsTest, GetattrMatchesStat) {
  MakeFile("f", "twelve bytes", 04711);
  const GetattrRes got = Getattr(context_, {.object = HandleOf("f")});
  ASSERT_EQ(got.status, Nfsstat3::kOk);
  const struct stat is = Stat("f");
  EXPECT_EQ(got.resok.type, Ftype3::kReg);
  EXPECT_EQ(got.resok.mode, 04711u);
  EXPECT_EQ(got.resok.size, 12u);
  EXPECT_EQ(got.resok.fileid, is.st_ino);
  EXPECT_EQ(got.resok.fsid, tree_->id());
  EXPECT_EQ(got.resok.mtime.nseconds, is.st_mtim.tv_nsec);
  EXPECT_EQ(Getattr(context_, {.object = Root()}).resok.type, Ftype3::kDir);
  EXPECT_EQ(Getattr(context_, {}).status, Nfsstat3::kBadhandle);
}

TEST_F(AttributeCallsTest, OnlyTheOwnerMaySetAttributes) {
  MakeFile("f", "text");
  EXPECT_EQ(Set("f", {.mode = 0600}), Nfsstat3::kPerm);
  EXPECT_EQ(Set("f", {.size = 1}), Nfsstat3::kAcces);
  ASSERT_EQ(chown(Path("f").c_str(), kUser, kGroup), 0);
  EXPECT_EQ(Set("f", {.mode = 0400}), Nfsstat3::kOk);
  // The client had it open when the mode changed.
  EXPECT_EQ(Set("f", {.size = 2}), Nfsstat3::kOk);
  EXPECT_EQ(Text("f"), "te");
  EXPECT_EQ(Set("f", {.uid = kUser, .gid = kGroup}), Nfsstat3::kOk);
  EXPECT_EQ(Set("f", {.uid = 5}), Nfsstat3::kPerm);
  EXPECT_EQ(Set("f", {.gid = 5}), Nfsstat3::kPerm);
  EXPECT_EQ(Set("f", {.uid = UINT32_MAX}), Nfsstat3::kInval);
  EXPECT_EQ(Set("f", {.size = uint64_t{1} << 63}), Nfsstat3::kFbig);
  EXPECT_EQ(Set("", {.size = 0}), Nfsstat3::kInval);
  EXPECT_EQ(Set("f", {.mtime = {.set_it = TimeHow::kSetToClientTime, .time = {5, 6}}}),
            Nfsstat3::kOk);
  EXPECT_EQ(Stat("f").st_mtim.tv_sec, 5);
  EXPECT_EQ(Stat("f").st_mtim.tv_nsec, 6);
  // More than a second of nanoseconds, which the kernel would take for "now".
  for (const long nseconds : {1'000'000'000L, UTIME_NOW, UTIME_OMIT}) {
    const SetTime3 none{.set_it = TimeHow::kSetToClientTime,
                        .time = {7, static_cast<uint32_t>(nseconds)}};
    EXPECT_EQ(Set("f", {.mtime = none}), Nfsstat3::kInval);
    EXPECT_EQ(Set("f", {.size = 0, .atime = none}), Nfsstat3::kInval);
  }
  EXPECT_EQ(Text("f"), "te");
  context_.caller = {.uid = 0, .gid = 0, .groups = {}};
  EXPECT_EQ(Set("f", {.mode = 0640, .uid = 5, .gid = 6}), Nfsstat3::kOk);
  EXPECT_EQ(Stat("f").st_uid, 5u);
  EXPECT_EQ(Stat("f").st_gid, 6u);
}

class ChownTest : public AttributeCallsTest {
 protected:
  // kUser's, with both bits and a ctime that the clock has left behind.
  void MakeSetIds(const std::string& name) {
    MakeFile(name, "text");
    ASSERT_EQ(chown(Path(name).c_str(), kUser, kGroup), 0);
    ASSERT_EQ(chmod(Path(name).c_str(), 06755), 0);
    const timespec changed = Stat(name).st_ctim;
    timespec now = changed;
    while (now.tv_sec == changed.tv_sec && now.tv_nsec <= changed.tv_nsec) {
      clock_gettime(CLOCK_REALTIME_COARSE, &now);
    }
  }
  uint32_t Mode(const std::string& name) const { return Stat(name).st_mode & kPermissions; }
  Nfstime3 Ctime(const std::string& name) const { return ToNfstime3(Stat(name).st_ctim); }

  const std::vector<Sattr3> same_owner_ = {
      {.uid = kUser}, {.gid = kGroup}, {.uid = kUser, .gid = kGroup}};
};

// chown(2) to what it has already is a change all the same.
TEST_F(ChownTest, ChownToTheSameOwnerClearsTheSetIdBits) {
  const Credential root{.uid = 0, .gid = 0, .groups = {}};
  for (const Credential& caller : {context_.caller, root}) {
    for (const Sattr3& same : same_owner_) {
      MakeSetIds("f");
      const Nfstime3 ctime = Ctime("f");
      context_.caller = caller;
      EXPECT_EQ(Set("f", same), Nfsstat3::kOk);
      EXPECT_EQ(Mode("f"), 0755u);
      EXPECT_NE(Ctime("f"), ctime);
      EXPECT_EQ(Stat("f").st_uid, kUser);
      EXPECT_EQ(Stat("f").st_gid, kGroup);
    }
  }
}

TEST_F(ChownTest, ChownToTheSameOwnerNeedsTheOwner) {
  context_.caller = {.uid = kUser + 1, .gid = kGroup, .groups = {}};
  for (const Sattr3& same : same_owner_) {
    MakeSetIds("f");
    const Nfstime3 ctime = Ctime("f");
    EXPECT_EQ(Set("f", same), Nfsstat3::kPerm);
    EXPECT_EQ(Mode("f"), 06755u);
    EXPECT_EQ(Ctime("f"), ctime);
  }
}

TEST_F(ChownTest, DirectoriesKeepTheSetIdBits) {
  ASSERT_EQ(mkdir(Path("d").c_str(), 0755), 0);
  ASSERT_EQ(chown(Path("d").c_str(), kUser, kGroup), 0);
  ASSERT_EQ(chmod(Path("d").c_str(), 06755), 0);
  for (const Sattr3& same : same_owner_) EXPECT_EQ(Set("d", same), Nfsstat3::kOk);
  EXPECT_EQ(Mode("d"), 06755u);
}

// The owner of a file whose group is not one of his may say it, and no other.
TEST_F(ChownTest, TheOwnerMayChownToTheSameForeignGroup) {
  MakeSetIds("f");
  ASSERT_EQ(chown(Path("f").c_str(), kUser, kGroup + 1), 0);
  EXPECT_EQ(Set("f", {.gid = kGroup + 1}), Nfsstat3::kOk);
  EXPECT_EQ(Set("f", {.uid = kUser, .gid = kGroup + 1}), Nfsstat3::kOk);
  EXPECT_EQ(Set("f", {.gid = kGroup + 2}), Nfsstat3::kPerm);
}

TEST_F(ChownTest, AModeInTheSameCallIsKept) {
  MakeSetIds("f");
  EXPECT_EQ(Set("f", {.mode = 04711, .uid = kUser}), Nfsstat3::kOk);
  EXPECT_EQ(Mode("f"), 04711u);
}

// open(O_TRUNC) and ftruncate(2) of Linux's client: the size, and the server's time for mtime
// alone. Who may write may do both, as on any local file system.
TEST_F(AttributeCallsTest, AWriterMayTruncate) {
  MakeFile("f", "text", 0666);
  const Sattr3 truncation{.size = 2, .mtime = {.set_it = TimeHow::kSetToServerTime}};
  EXPECT_EQ(Set("f", truncation), Nfsstat3::kOk);
  EXPECT_EQ(Text("f"), "te");
  // Of the same size: Linux's client leaves it out.
  EXPECT_EQ(Set("f", {.mtime = {.set_it = TimeHow::kSetToServerTime}}), Nfsstat3::kOk);
  // touch(1)
  EXPECT_EQ(Set("f", {.atime = {.set_it = TimeHow::kSetToServerTime},
                      .mtime = {.set_it = TimeHow::kSetToServerTime}}),
            Nfsstat3::kOk);
}

TEST_F(AttributeCallsTest, AGrowingSizeFillsWithZeros) {
  MakeFile("f", "text", 0666);
  EXPECT_EQ(Set("f", {.size = 7}), Nfsstat3::kOk);
  EXPECT_EQ(Text("f"), std::string("text\0\0\0", 7));
}

// Times are set by root's leave: it is for SETATTR itself to refuse.
TEST_F(AttributeCallsTest, SettingTimesNeedsWritePermissionOrTheOwner) {
  constexpr SetTime3 kNow{.set_it = TimeHow::kSetToServerTime};
  constexpr SetTime3 kThen{.set_it = TimeHow::kSetToClientTime, .time = {5, 6}};
  MakeFile("f", "text", 0644);
  const time_t before = Stat("f").st_mtim.tv_sec;
  EXPECT_EQ(Set("f", {.mtime = kNow}), Nfsstat3::kPerm);
  EXPECT_EQ(Set("f", {.atime = kNow}), Nfsstat3::kPerm);
  EXPECT_EQ(Set("f", {.atime = kNow, .mtime = kNow}), Nfsstat3::kAcces);
  MakeFile("g", "text", 0666);
  EXPECT_EQ(Set("g", {.mtime = kThen}), Nfsstat3::kPerm);
  EXPECT_EQ(Set("g", {.atime = kNow, .mtime = kThen}), Nfsstat3::kPerm);
  EXPECT_EQ(Set("g", {.atime = kThen, .mtime = kNow}), Nfsstat3::kPerm);
  EXPECT_EQ(Stat("f").st_mtim.tv_sec, before);
  EXPECT_NE(Stat("g").st_mtim.tv_sec, 5);
}

TEST_F(AttributeCallsTest, SetattrOfASymlinkDoesNotChangeItsTarget) {
  MakeFile("f", "text");
  ASSERT_EQ(symlink("f", Path("l").c_str()), 0);
  ASSERT_EQ(lchown(Path("l").c_str(), kUser, kGroup), 0);
  EXPECT_EQ(Set("l", {.mtime = {.set_it = TimeHow::kSetToClientTime, .time = {5, 6}}}),
            Nfsstat3::kOk);
  EXPECT_EQ(Stat("l").st_mtim.tv_sec, 5);
  EXPECT_NE(Stat("f").st_mtim.tv_sec, 5);
}

TEST_F(AttributeCallsTest, SetattrChecksTheGuardAndReturnsWccData) {
  MakeFile("f", "text");
  ASSERT_EQ(chown(Path("f").c_str(), kUser, kGroup), 0);
  const Nfstime3 ctime = Getattr(context_, {.object = HandleOf("f")}).resok.ctime;
  SetattrArgs args{.object = HandleOf("f"), .new_attributes = {.size = 3}, .guard = ctime};
  ++args.guard->nseconds;
  const SetattrRes refused = Setattr(context_, args);
  EXPECT_EQ(refused.status, Nfsstat3::kNotSync);
  EXPECT_EQ(refused.resfail.after->size, 4u);
  args.guard = ctime;
  const SetattrRes done = Setattr(context_, args);
  ASSERT_EQ(done.status, Nfsstat3::kOk);
  ASSERT_TRUE(done.resok.before.has_value());
  EXPECT_EQ(done.resok.before->size, 4u);
  EXPECT_EQ(done.resok.before->ctime, ctime);
  EXPECT_EQ(done.resok.after->size, 3u);
}

TEST_F(AttributeCallsTest, AReadOnlyExportRefusesSetattr) {
  MakeFile("f", "text", 0666);
  rights_.read_only = true;
  EXPECT_EQ(Set("f", {.size = 0}), Nfsstat3::kRofs);
  EXPECT_EQ(Text("f"), "text");
  EXPECT_EQ(Granted("f"), kAccess3Read);
}

TEST_F(AttributeCallsTest, AReadOnlyExportGrantsWritingToNodes) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  ASSERT_EQ(chmod(Path("fifo").c_str(), 0666), 0);
  rights_.read_only = true;
  EXPECT_EQ(Granted("fifo"), kAccess3Read | kAccess3Modify | kAccess3Extend);
}

TEST_F(AttributeCallsTest, AccessMatchesTheFileMode) {
  MakeFile("f", "text", 0751);
  EXPECT_EQ(Granted("f"), kAccess3Execute);
  context_.caller.groups = {Stat("f").st_gid};
  EXPECT_EQ(Granted("f"), kAccess3Read | kAccess3Execute);
  ASSERT_EQ(chown(Path("f").c_str(), kUser, 0), 0);
  EXPECT_EQ(Granted("f"), kAccess3Read | kAccess3Modify | kAccess3Extend | kAccess3Execute);
  EXPECT_EQ(Granted(""), 0x1Fu);
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_EQ(Granted(""), kAccess3Read | kAccess3Lookup);
}

TEST_F(AttributeCallsTest, FsstatFsinfoAndPathconfReportTheLimits) {
  const FsstatRes space = Fsstat(context_, {.object = Root()});
  ASSERT_EQ(space.status, Nfsstat3::kOk);
  EXPECT_GT(space.resok.tbytes, 0u);
  EXPECT_GE(space.resok.fbytes, space.resok.abytes);
  const FsinfoRes info = Fsinfo(context_, {.object = Root()});
  EXPECT_EQ(info.resok.rtmax, kMaxFileData);
  EXPECT_EQ(info.resok.wtmax, kMaxFileData);
  EXPECT_TRUE(info.resok.obj_attributes.has_value());
  const PathconfRes names = Pathconf(context_, {.object = Root()});
  EXPECT_EQ(names.resok.name_max, 255u);
  EXPECT_GE(names.resok.linkmax, 8u);
  for (const Nfsstat3 status : {Fsstat(context_, {}).status, Fsinfo(context_, {}).status,
                                Pathconf(context_, {}).status, Access(context_, {}).status}) {
    EXPECT_EQ(status, Nfsstat3::kBadhandle);
  }
}

}  // namespace
}  // namespace pollux::nfs
