#include "nfs/procedures/create_calls.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "nfs/export/export_for_test.h"
#include "nfs/procedures/attribute_calls.h"

namespace pollux::nfs {
namespace {

class CreateCallsTest : public ExportOnDisk {
 protected:
  Diropargs3 At(std::string_view name) { return {.dir = Root(), .name = {name}}; }
  CreateRes MakeNew(std::string_view name, Createmode3 mode, const Sattr3& wanted) {
    return Create(context_, {.where = At(name), .how = {.mode = mode, .obj_attributes = wanted}});
  }
  CreateRes MakeExclusive(std::string_view name, uint64_t verf) {
    return Create(context_,
                  {.where = At(name), .how = {.mode = Createmode3::kExclusive, .verf = verf}});
  }
};

TEST_F(CreateCallsTest, GuardedCreateRefusesAnExistingFile) {
  const CreateRes made = MakeNew("f", Createmode3::kGuarded, {.mode = 0666});
  ASSERT_EQ(made.status, Nfsstat3::kOk);
  EXPECT_EQ(*made.resok.obj, HandleOf("f"));
  EXPECT_EQ(made.resok.obj_attributes->mode, 0666u);
  EXPECT_EQ(made.resok.obj_attributes->uid, kUser);
  EXPECT_EQ(made.resok.obj_attributes->gid, kGroup);
  EXPECT_TRUE(made.resok.dir_wcc.before.has_value());
  EXPECT_EQ(MakeNew("f", Createmode3::kGuarded, {}).status, Nfsstat3::kExist);
  EXPECT_EQ(MakeNew("", Createmode3::kGuarded, {}).status, Nfsstat3::kInval);
  EXPECT_EQ(MakeNew("..", Createmode3::kGuarded, {}).status, Nfsstat3::kExist);
  EXPECT_EQ(MakeNew(".", Createmode3::kUnchecked, {.size = 0}).status, Nfsstat3::kExist);
  EXPECT_EQ(MakeNew("a/b", Createmode3::kGuarded, {}).status, Nfsstat3::kInval);
  EXPECT_EQ(MakeNew(std::string_view("a\0b", 3), Createmode3::kGuarded, {}).status,
            Nfsstat3::kInval);
  EXPECT_EQ(MakeNew(std::string(256, 'n'), Createmode3::kGuarded, {}).status,
            Nfsstat3::kNametoolong);
}

TEST_F(CreateCallsTest, UncheckedCreateAcceptsAnExistingFile) {
  MakeFile("f", "text", 0666);
  const CreateRes kept = MakeNew("f", Createmode3::kUnchecked, {.mode = 0600});
  ASSERT_EQ(kept.status, Nfsstat3::kOk);
  EXPECT_EQ(Text("f"), "text");
  EXPECT_EQ(kept.resok.obj_attributes->mode, 0666u);
  ASSERT_EQ(MakeNew("f", Createmode3::kUnchecked, {.size = 0}).status, Nfsstat3::kOk);
  EXPECT_EQ(Text("f"), "");
  ASSERT_EQ(symlink("/etc/passwd", Path("l").c_str()), 0);
  EXPECT_EQ(MakeNew("l", Createmode3::kUnchecked, {.size = 0}).status, Nfsstat3::kExist);
  EXPECT_EQ(MakeNew("new", Createmode3::kUnchecked, {.mode = 0400, .size = 5}).status,
            Nfsstat3::kOk);
  EXPECT_EQ(Stat("new").st_size, 5);
}

TEST_F(CreateCallsTest, UncheckedCreateFindsAnExistingNodeAndLeavesItsSize) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0666), 0);
  const CreateRes found = MakeNew("fifo", Createmode3::kUnchecked, {.size = 0});
  ASSERT_EQ(found.status, Nfsstat3::kOk);
  EXPECT_EQ(*found.resok.obj, HandleOf("fifo"));
  ASSERT_EQ(mkdir(Path("d").c_str(), 0777), 0);
  EXPECT_EQ(MakeNew("d", Createmode3::kUnchecked, {}).status, Nfsstat3::kExist);
}

TEST_F(CreateCallsTest, SetUserIdBitIsKeptWithANewOwner) {
  context_.caller = {.uid = 0, .gid = 0, .groups = {}};
  ASSERT_EQ(MakeNew("f", Createmode3::kGuarded, {.mode = 04755, .uid = kUser}).status,
            Nfsstat3::kOk);
  EXPECT_EQ(Stat("f").st_uid, kUser);
  EXPECT_EQ(Stat("f").st_mode & 07777, 04755u);
}

TEST_F(CreateCallsTest, AForeignGroupIsIgnored) {
  const Sattr3 wanted{.mode = 0700, .gid = kGroup + 1};
  EXPECT_EQ(MakeNew("f", Createmode3::kGuarded, wanted).status, Nfsstat3::kOk);
  EXPECT_EQ(Mkdir(context_, {.where = At("d"), .attributes = wanted}).status, Nfsstat3::kOk);
  for (const char* name : {"f", "d"}) EXPECT_EQ(Stat(name).st_gid, kGroup) << name;
  context_.caller.groups = {kGroup + 1};
  EXPECT_EQ(MakeNew("own", Createmode3::kGuarded, wanted).status, Nfsstat3::kOk);
  EXPECT_EQ(Stat("own").st_gid, kGroup + 1);
}

TEST_F(CreateCallsTest, ARepeatedExclusiveCreateFindsItsFile) {
  const uint64_t verf = 0x0123456789ABCDEF;
  const CreateRes made = MakeExclusive("f", verf);
  ASSERT_EQ(made.status, Nfsstat3::kOk);
  const CreateRes again = MakeExclusive("f", verf);
  ASSERT_EQ(again.status, Nfsstat3::kOk);
  EXPECT_EQ(*again.resok.obj, *made.resok.obj);
  EXPECT_EQ(MakeExclusive("f", verf + 1).status, Nfsstat3::kExist);
  // From then on the times are the file's own.
  ASSERT_EQ(Setattr(context_, {.object = HandleOf("f"),
                               .new_attributes = {.mode = 0644,
                                                  .atime = {TimeHow::kSetToServerTime, {}},
                                                  .mtime = {TimeHow::kSetToServerTime, {}}}})
                .status,
            Nfsstat3::kOk);
  EXPECT_EQ(MakeExclusive("f", verf).status, Nfsstat3::kExist);
}

TEST_F(CreateCallsTest, MkdirAndSymlinkCreateTheirObject) {
  const CreateRes made = Mkdir(context_, {.where = At("d"), .attributes = {.mode = 02751}});
  ASSERT_EQ(made.status, Nfsstat3::kOk);
  EXPECT_EQ(made.resok.obj_attributes->type, Ftype3::kDir);
  EXPECT_EQ(Stat("d").st_mode & 07777, 02751u);
  EXPECT_EQ(Mkdir(context_, {.where = At("d")}).status, Nfsstat3::kExist);
  const std::string text = "../anywhere";
  SymlinkArgs args{.where = At("l")};
  args.symlink_data.bytes = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  const CreateRes linked = Symlink(context_, args);
  ASSERT_EQ(linked.status, Nfsstat3::kOk);
  EXPECT_EQ(linked.resok.obj_attributes->type, Ftype3::kLnk);
  EXPECT_EQ(linked.resok.obj_attributes->size, text.size());
  EXPECT_EQ(Symlink(context_, args).status, Nfsstat3::kExist);
  EXPECT_EQ(Symlink(context_, {.where = At("empty")}).status, Nfsstat3::kInval);
}

// RFC 1813 section 3.3.10: the directory changes once.
TEST_F(CreateCallsTest, SymlinkCreatesTheWholeLinkInOneStep) {
  const Fd watch(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_TRUE(watch.ok());
  ASSERT_GE(inotify_add_watch(watch.get(), directory_.c_str(), IN_CREATE | IN_DELETE | IN_MOVE), 0);
  const std::string text = "target";
  SymlinkArgs args{.where = At("l")};
  args.symlink_data.bytes = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  ASSERT_EQ(Symlink(context_, args).status, Nfsstat3::kOk);
  EXPECT_EQ(std::filesystem::read_symlink(Path("l")).string(), text);
  alignas(inotify_event) std::array<char, 4096> events;
  const ssize_t bytes = read(watch.get(), events.data(), events.size());
  ASSERT_GE(bytes, static_cast<ssize_t>(sizeof(inotify_event)));
  const auto* event = reinterpret_cast<const inotify_event*>(events.data());
  EXPECT_EQ(event->mask, uint32_t{IN_CREATE});
  EXPECT_EQ(std::string(event->name), "l");
  EXPECT_EQ(static_cast<size_t>(bytes), sizeof(inotify_event) + event->len) << "no other event";
}

TEST_F(CreateCallsTest, MknodCreatesEveryTypeOfNode) {
  for (const auto& [type, mode] : {std::pair(Ftype3::kFifo, S_IFIFO), {Ftype3::kSock, S_IFSOCK}}) {
    const std::string name = mode == S_IFIFO ? "fifo" : "socket";
    ASSERT_EQ(
        Mknod(context_, {.where = At(name), .what = {.type = type, .attributes = {.mode = 0622}}})
            .status,
        Nfsstat3::kOk);
    EXPECT_EQ(Stat(name).st_mode, static_cast<mode_t>(mode) | 0622u);
  }
  const Mknoddata3 null{.type = Ftype3::kChr, .attributes = {.mode = 0600}, .spec = {1, 3}};
  EXPECT_EQ(Mknod(context_, {.where = At("null"), .what = null}).status, Nfsstat3::kPerm);
  context_.caller = {.uid = 0, .gid = 0, .groups = {}};
  const CreateRes made = Mknod(context_, {.where = At("null"), .what = null});
  ASSERT_EQ(made.status, Nfsstat3::kOk);
  EXPECT_EQ(made.resok.obj_attributes->rdev, (Specdata3{1, 3}));
  EXPECT_EQ(Mknod(context_, {.where = At("r"), .what = {.type = Ftype3::kReg}}).status,
            Nfsstat3::kBadtype);
}

TEST_F(CreateCallsTest, CreateNeedsWritePermissionAndAWritableExport) {
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_EQ(MakeNew("f", Createmode3::kUnchecked, {}).status, Nfsstat3::kAcces);
  EXPECT_EQ(Mkdir(context_, {.where = At("d")}).status, Nfsstat3::kAcces);
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  rights_.read_only = true;
  EXPECT_EQ(MakeExclusive("f", 1).status, Nfsstat3::kRofs);
  EXPECT_EQ(Mkdir(context_, {.where = At("d")}).status, Nfsstat3::kRofs);
}

}  // namespace
}  // namespace pollux::nfs
