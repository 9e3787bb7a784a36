// Calls that store their change before they reply.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nfs/export/export_for_test.h"
#include "nfs/procedures/attribute_calls.h"
#include "nfs/procedures/create_calls.h"
#include "nfs/procedures/name_calls.h"
#include "nfs/server/stalled_file_for_test.h"

namespace {

// Runs at each fsync() of this thread.
thread_local std::function<void()> at_fsync;
// Runs before the next fstatat() of this thread.
thread_local std::function<void()> at_fstatat;
// Runs before each fstat() of this thread.
thread_local std::function<void()> at_fstat;

}  // namespace

extern "C" int fsync(int fd) {
  if (at_fsync) at_fsync();
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int fstat(int fd, struct stat* attributes) noexcept {
  if (at_fstat) at_fstat();
  return static_cast<int>(syscall(SYS_fstat, fd, attributes));
}

extern "C" int fstatat(int fd, const char* path, struct stat* attributes, int flags) noexcept {
  if (const auto action = std::exchange(at_fstatat, nullptr)) action();
  return static_cast<int>(syscall(SYS_newfstatat, fd, path, attributes, flags));
}

namespace pollux::nfs {
namespace {

class SettleTest : public ExportOnDisk {
 protected:
  static constexpr time_t kLocalTime = 5;

  void TearDown() override {
    at_fsync = nullptr;
    at_fstatat = nullptr;
    at_fstat = nullptr;
    ExportOnDisk::TearDown();
  }
  Diropargs3 At(std::string_view name) { return {.dir = Root(), .name = {name}}; }
  // A local process changes the object while the call is stored.
  void ChangeAtFsync(const std::string& path) {
    fsyncs_ = 0;
    at_fsync = [this, path] {
      ++fsyncs_;
      const std::array<timespec, 2> times = {timespec{.tv_sec = kLocalTime, .tv_nsec = 0},
                                             timespec{.tv_sec = kLocalTime, .tv_nsec = 0}};
      EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
    };
  }
  // The client must find `after` outdated later, so it must not be the local change.
  void ExpectUnadopted(const WccData& wcc) {
    EXPECT_GT(fsyncs_, 0);
    ASSERT_TRUE(wcc.before.has_value());
    ASSERT_TRUE(wcc.after.has_value());
    EXPECT_NE(wcc.after->mtime.seconds, kLocalTime);
    fsyncs_ = 0;
  }

  int fsyncs_ = 0;
};

TEST_F(SettleTest, WccDataExcludesLocalChangesDuringTheFsync) {
  MakeFile("f", "text");
  ASSERT_EQ(chown(Path("f").c_str(), kUser, kGroup), 0);
  ASSERT_EQ(mkdir(Path("d").c_str(), 0777), 0);
  ChangeAtFsync(directory_);
  const CreateRes made =
      Create(context_, {.where = At("g"), .how = {.mode = Createmode3::kGuarded}});
  ASSERT_EQ(made.status, Nfsstat3::kOk);
  ExpectUnadopted(made.resok.dir_wcc);
  const LinkRes linked = Link(context_, {.file = HandleOf("f"), .link = At("h")});
  ASSERT_EQ(linked.status, Nfsstat3::kOk);
  ExpectUnadopted(linked.resok.linkdir_wcc);
  const RemoveRes removed = Remove(context_, At("h"));
  ASSERT_EQ(removed.status, Nfsstat3::kOk);
  ExpectUnadopted(removed.resok);
  const RenameRes moved =
      Rename(context_, {.from = At("g"), .to = {.dir = HandleOf("d"), .name = {"g"}}});
  ASSERT_EQ(moved.status, Nfsstat3::kOk);
  ExpectUnadopted(moved.resok.fromdir_wcc);
  ChangeAtFsync(Path("f"));
  const SetattrRes set =
      Setattr(context_, {.object = HandleOf("f"), .new_attributes = {.size = 1}});
  ASSERT_EQ(set.status, Nfsstat3::kOk);
  ExpectUnadopted(set.resok);
}

TEST_F(SettleTest, CallsWithoutADescriptorToStoreChangeNothing) {
  MakeFile("f", "text", 0666);
  ASSERT_EQ(chown(Path("f").c_str(), kUser, kGroup), 0);
  ASSERT_EQ(mkdir(Path("d").c_str(), 0777), 0);
  const NfsFh3 file = HandleOf("f"), directory = HandleOf("d");
  // Free numbers between those in use are filled.
  std::vector<Fd> used(64);
  for (Fd& fd : used) fd = Fd(open(directory_.c_str(), O_PATH | O_CLOEXEC));
  rlimit all;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
  // `count`: the descriptors by which the call finds its objects, and none more.
  const auto expect_refused = [&](rlim_t count, const std::function<Nfsstat3()>& call) {
    rlimit few = all;
    few.rlim_cur = static_cast<rlim_t>(used.back().get()) + 1 + count;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const Nfsstat3 status = call();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
    EXPECT_EQ(status, Nfsstat3::kJukebox);
  };
  // Made before, since UBSan needs a descriptor to check the type of this object.
  const CallContext& context = context_;
  const Diropargs3 f = At("f"), d = At("d"), g = At("g"), inside{.dir = directory, .name = {"g"}};
  expect_refused(1, [&] { return Remove(context, f).status; });
  expect_refused(1, [&] { return Rmdir(context, d).status; });
  expect_refused(1, [&] { return Mkdir(context, {.where = g}).status; });
  expect_refused(2, [&] { return Link(context, {.file = file, .link = g}).status; });
  expect_refused(2, [&] { return Rename(context, {.from = f, .to = inside}).status; });
  // One of two.
  expect_refused(3, [&] { return Rename(context, {.from = f, .to = inside}).status; });
  expect_refused(1, [&] {
    return Setattr(context, {.object = file, .new_attributes = {.mode = 0600}}).status;
  });
  EXPECT_EQ(Stat("f").st_nlink, 1u);
  EXPECT_EQ(Stat("f").st_mode & kPermissions, 0666u);
  EXPECT_EQ(Stat("d").st_nlink, 2u);
  EXPECT_EQ(access(Path("g").c_str(), F_OK), -1);
}

// With any number of free descriptors, even if one is missing only for the steps after the change.
TEST_F(SettleTest, CallsThatMakeAnObjectFailOnlyIfTheyMakeNone) {
  const Fd directory(open(directory_.c_str(), O_DIRECTORY));
  std::vector<Fd> used(64);
  for (Fd& fd : used) fd = Fd(open(directory_.c_str(), O_PATH | O_CLOEXEC));
  rlimit all;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
  const CallContext& context = context_;
  const Diropargs3 g = At("g");
  CreateArgs file{.where = g, .how = {.mode = Createmode3::kGuarded}};
  file.how.obj_attributes.size = 1;
  const std::array<uint8_t, 4> text = {'t', 'e', 'x', 't'};
  const std::vector<std::function<Nfsstat3()>> calls = {
      [&] { return Create(context, file).status; },
      [&] { return Mkdir(context, {.where = g}).status; },
      [&] { return Symlink(context, {.where = g, .symlink_data = {text}}).status; },
      [&] { return Mknod(context, {.where = g, .what = {.type = Ftype3::kFifo}}).status; }};
  for (const auto& call : calls) {
    Nfsstat3 status = Nfsstat3::kJukebox;
    for (rlim_t count = 1; status == Nfsstat3::kJukebox && count < 10; ++count) {
      rlimit few = all;
      few.rlim_cur = static_cast<rlim_t>(used.back().get()) + 1 + count;
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      status = call();
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
      const bool is_made = unlinkat(directory.get(), "g", 0) == 0 ||
                           unlinkat(directory.get(), "g", AT_REMOVEDIR) == 0;
      EXPECT_EQ(is_made, status == Nfsstat3::kOk) << count;
    }
    EXPECT_EQ(status, Nfsstat3::kOk);
  }
}

TEST_F(SettleTest, CallsThatChangeALeasedFileArePutOff) {
  MakeFile("f", "text", 0666);
  ASSERT_EQ(chown(Path("f").c_str(), kUser, kGroup), 0);
  const SetattrArgs set{.object = HandleOf("f"), .new_attributes = {.mode = 0600}};
  CreateArgs create{.where = At("f")};
  create.how.obj_attributes.size = 0;
  {
    const LeasedFile lease(Path("f"));
    EXPECT_EQ(Setattr(context_, set).status, Nfsstat3::kJukebox);
    EXPECT_EQ(Create(context_, create).status, Nfsstat3::kJukebox);
    EXPECT_EQ(Stat("f").st_mode & kPermissions, 0666u);
    EXPECT_EQ(Stat("f").st_size, 4);
  }
  EXPECT_EQ(Setattr(context_, set).status, Nfsstat3::kOk);
  EXPECT_EQ(Create(context_, create).status, Nfsstat3::kOk);
}

TEST_F(SettleTest, UncheckedCreateTriesAgainIfTheExistingFileVanishes) {
  MakeFile("f", "text", 0666);
  // The thread acts as the caller then, who may have no access to the directory's path.
  const Fd directory(open(directory_.c_str(), O_DIRECTORY));
  at_fstatat = [&directory] { EXPECT_EQ(unlinkat(directory.get(), "f", 0), 0); };
  EXPECT_EQ(Create(context_, {.where = At("f")}).status, Nfsstat3::kOk);
  EXPECT_EQ(Text("f"), "");
}

TEST_F(SettleTest, UncheckedCreateTriesAgainIfTheNewFileVanishes) {
  const Fd directory(open(directory_.c_str(), O_DIRECTORY));
  int removed = 0;
  at_fstat = [&] {
    if (removed == 0 && unlinkat(directory.get(), "f", 0) == 0) ++removed;
  };
  EXPECT_EQ(Create(context_, {.where = At("f")}).status, Nfsstat3::kOk);
  EXPECT_EQ(removed, 1);
  EXPECT_EQ(Text("f"), "");
}

}  // namespace
}  // namespace pollux::nfs
