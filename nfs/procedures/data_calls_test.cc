#include "nfs/procedures/data_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "nfs/export/export_for_test.h"
#include "nfs/server/stalled_file_for_test.h"

namespace pollux::nfs {
namespace {

class DataCallsTest : public ExportOnDisk {
 protected:
  // With the transfer done here.
  ReadRes Read(const std::string& name, uint64_t offset, uint32_t count) {
    DataCall call;
    const Nfsstat3 begun =
        call.Begin(context_, ReadArgs{.file = HandleOf(name), .offset = offset, .count = count});
    const Transfer& transfer = call.transfer();
    ssize_t done = 0;
    if (begun == Nfsstat3::kOk && transfer.kind == Transfer::Kind::kRead) {
      done = pread(transfer.file.get(), transfer.to.data(), transfer.to.size(),
                   static_cast<off_t>(transfer.offset));
    }
    return call.EndRead(context_, begun, done < 0 ? -errno : static_cast<int>(done));
  }
  WriteArgs Writing(const std::string& name, uint64_t offset, const std::string& text) {
    WriteArgs args{.file = HandleOf(name), .offset = offset};
    args.count = static_cast<uint32_t>(text.size());
    args.data.bytes = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    return args;
  }
  WriteRes Write(const WriteArgs& args, int result) {
    DataCall call;
    const Nfsstat3 begun = call.Begin(context_, args);
    return call.EndWrite(context_, begun, result);
  }
};

std::string TextOf(const ReadRes& read) {
  return {read.resok.data.bytes.begin(), read.resok.data.bytes.end()};
}

TEST_F(DataCallsTest, AReadThatReachesTheEndSetsEof) {
  MakeFile("f", "0123456789");
  ReadRes read = Read("f", 0, 4);
  EXPECT_EQ(TextOf(read), "0123");
  EXPECT_FALSE(read.resok.eof);
  read = Read("f", 4, 6);
  EXPECT_EQ(TextOf(read), "456789");
  EXPECT_TRUE(read.resok.eof);
  read = Read("f", 8, 100);
  EXPECT_EQ(read.resok.count, 2u);
  EXPECT_TRUE(read.resok.eof);
  for (const uint64_t offset : {uint64_t{10}, uint64_t{1} << 62, UINT64_MAX}) {
    read = Read("f", offset, 10);
    EXPECT_EQ(read.status, Nfsstat3::kOk);
    EXPECT_EQ(read.resok.count, 0u);
    EXPECT_TRUE(read.resok.eof);
  }
  EXPECT_FALSE(Read("f", 0, 0).resok.eof);
}

// tmpfs has such files, and ext4 has not.
TEST_F(DataCallsTest, TheEndOfTheLargestFileCanBeRead) {
  std::filesystem::remove_all(directory_);
  std::string pattern = "/dev/shm/exportXXXXXX";
  directory_ = mkdtemp(pattern.data());
  exported_.directory = directory_;
  OpenTree();
  MakeFile("f", "");
  const Fd file(open(Path("f").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), INT64_MAX), 0);
  ASSERT_EQ(pwrite(file.get(), "x", 1, INT64_MAX - 1), 1);
  const uint64_t offset = (uint64_t{1} << 63) - 4096;
  for (const uint32_t count : {4096u, 4095u}) {
    const ReadRes read = Read("f", offset, count);
    EXPECT_EQ(read.resok.count, 4095u) << count;
    EXPECT_TRUE(TextOf(read).ends_with('x')) << count;
    EXPECT_TRUE(read.resok.eof);
  }
  EXPECT_EQ(TextOf(Read("f", INT64_MAX - 1, 4096)), "x");
  for (const uint64_t end : {uint64_t{INT64_MAX}, uint64_t{INT64_MAX} + 1}) {
    const ReadRes read = Read("f", end, 4096);
    EXPECT_EQ(read.resok.count, 0u);
    EXPECT_TRUE(read.resok.eof);
  }
}

TEST_F(DataCallsTest, AShortReadDoesNotSetEof) {
  MakeFile("f", "0123456789");
  const ReadArgs args{.file = HandleOf("f"), .offset = 2, .count = 100};
  for (const auto& [done, eof] : {std::pair(3, false), {8, true}, {0, true}}) {
    DataCall call;
    ASSERT_EQ(call.Begin(context_, args), Nfsstat3::kOk);
    const ReadRes read = call.EndRead(context_, Nfsstat3::kOk, done);
    EXPECT_EQ(read.resok.count, static_cast<uint32_t>(done));
    EXPECT_EQ(read.resok.eof, eof) << done;
  }
}

TEST_F(DataCallsTest, ReadNeedsReadOrExecutePermissionOrTheOwner) {
  MakeFile("f", "text", 0600);
  EXPECT_EQ(Read("f", 0, 4).status, Nfsstat3::kAcces);
  // A program's pages are read to execute it.
  ASSERT_EQ(chmod(Path("f").c_str(), 0711), 0);
  EXPECT_EQ(TextOf(Read("f", 0, 4)), "text");
  ASSERT_EQ(chmod(Path("f").c_str(), 0), 0);
  EXPECT_EQ(Read("f", 0, 4).status, Nfsstat3::kAcces);
  ASSERT_EQ(chown(Path("f").c_str(), kUser, kGroup), 0);
  EXPECT_EQ(TextOf(Read("f", 0, 4)), "text");
  EXPECT_EQ(Read("", 0, 4).status, Nfsstat3::kInval);
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0666), 0);
  EXPECT_EQ(Read("fifo", 0, 4).status, Nfsstat3::kInval);
}

TEST_F(DataCallsTest, WritePassesDataOffsetAndStabilityToStorage) {
  MakeFile("f", "", 0666);
  for (const auto& [stable, flags] : {std::pair(StableHow::kUnstable, 0),
                                      {StableHow::kDataSync, RWF_DSYNC},
                                      {StableHow::kFileSync, RWF_SYNC}}) {
    DataCall call;
    WriteArgs args = Writing("f", 5, "text");
    args.stable = stable;
    ASSERT_EQ(call.Begin(context_, args), Nfsstat3::kOk);
    EXPECT_EQ(call.transfer().flags, flags);
    EXPECT_EQ(call.transfer().offset, 5u);
    EXPECT_EQ(call.transfer().from.data(), args.data.bytes.data());
    const WriteRes written = call.EndWrite(context_, Nfsstat3::kOk, 3);
    EXPECT_EQ(written.resok.count, 3u);
    EXPECT_EQ(written.resok.committed, stable);
    EXPECT_EQ(written.resok.verf, 7u);
    EXPECT_TRUE(written.resok.file_wcc.before.has_value());
  }
}

TEST_F(DataCallsTest, InvalidWritesGetTheMatchingStatus) {
  MakeFile("f", "", 0644);
  EXPECT_EQ(Write(Writing("f", 0, "text"), 0).status, Nfsstat3::kAcces);
  ASSERT_EQ(chmod(Path("f").c_str(), 0666), 0);
  WriteArgs args = Writing("f", 0, "text");
  args.count = 5;
  EXPECT_EQ(Write(args, 0).status, Nfsstat3::kInval);
  EXPECT_EQ(Write(Writing("f", UINT64_MAX, "text"), 0).status, Nfsstat3::kFbig);
  EXPECT_EQ(Write(Writing("f", 0, ""), 0).status, Nfsstat3::kOk);
  EXPECT_EQ(Write(Writing("", 0, "text"), 0).status, Nfsstat3::kInval);
  rights_.read_only = true;
  EXPECT_EQ(Write(Writing("f", 0, "text"), 0).status, Nfsstat3::kRofs);
}

TEST_F(DataCallsTest, CallsForALeasedFileArePutOff) {
  MakeFile("f", "text", 0666);
  const ReadArgs read{.file = HandleOf("f"), .count = 4};
  const CommitArgs commit{.file = HandleOf("f")};
  {
    const LeasedFile lease(Path("f"));
    EXPECT_EQ(DataCall().Begin(context_, read), Nfsstat3::kJukebox);
    EXPECT_EQ(DataCall().Begin(context_, Writing("f", 0, "text")), Nfsstat3::kJukebox);
    EXPECT_EQ(DataCall().Begin(context_, commit), Nfsstat3::kJukebox);
  }
  DataCall call;
  EXPECT_EQ(call.Begin(context_, read), Nfsstat3::kOk);
  EXPECT_EQ(fcntl(call.transfer().file.get(), F_GETFL) & O_NONBLOCK, 0);
}

// While the file is stored, a local process may change it: the client must find its cache outdated.
TEST_F(DataCallsTest, WccDataOfCommitExcludesChangesDuringTheSync) {
  MakeFile("f", "text", 0666);
  DataCall call;
  const Nfsstat3 begun = call.Begin(context_, CommitArgs{.file = HandleOf("f")});
  ASSERT_EQ(begun, Nfsstat3::kOk);
  MakeFile("f", "another text", 0666);
  const CommitRes committed = call.EndCommit(context_, begun, 0);
  ASSERT_TRUE(committed.resok.file_wcc.before.has_value());
  ASSERT_TRUE(committed.resok.file_wcc.after.has_value());
  EXPECT_EQ(committed.resok.file_wcc.after->size, 4u);
}

// RFC 1813 section 3.3.21
TEST_F(DataCallsTest, CommitNeedsARegularFile) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0666), 0);
  for (const char* name : {"", "fifo"}) {
    DataCall call;
    const Nfsstat3 begun = call.Begin(context_, CommitArgs{.file = HandleOf(name)});
    EXPECT_EQ(call.EndCommit(context_, begun, 0).status, Nfsstat3::kInval) << name;
  }
}

TEST_F(DataCallsTest, AStorageErrorChangesTheWriteVerifier) {
  MakeFile("f", "", 0666);
  EXPECT_EQ(Write(Writing("f", 0, "text"), -ENOSPC).status, Nfsstat3::kNospc);
  EXPECT_EQ(verifier_, 7u);
  EXPECT_EQ(Write(Writing("f", 0, "text"), -EIO).status, Nfsstat3::kIo);
  EXPECT_EQ(verifier_, 8u);
  WriteArgs stable = Writing("f", 0, "text");
  stable.stable = StableHow::kFileSync;
  EXPECT_EQ(Write(stable, -ENOSPC).status, Nfsstat3::kNospc);
  EXPECT_EQ(verifier_, 9u) << "the error may be that of another client's data";
  const CommitArgs args{.file = HandleOf("f")};
  for (const auto& [result, status] :
       {std::pair(0, Nfsstat3::kOk), {-EIO, Nfsstat3::kIo}, {0, Nfsstat3::kOk}}) {
    DataCall call;
    ASSERT_EQ(call.Begin(context_, args), Nfsstat3::kOk);
    EXPECT_EQ(call.transfer().kind, Transfer::Kind::kSync);
    const CommitRes committed = call.EndCommit(context_, Nfsstat3::kOk, result);
    EXPECT_EQ(committed.status, status);
    if (status == Nfsstat3::kOk) {
      EXPECT_EQ(committed.resok.verf, verifier_);
    }
  }
  EXPECT_EQ(verifier_, 10u);
}

// Data may be lost during the transfer. With a later verifier, the client would believe it stored.
TEST_F(DataCallsTest, AWriteReturnsTheVerifierFromBeforeTheTransfer) {
  MakeFile("f", "", 0666);
  DataCall call;
  ASSERT_EQ(call.Begin(context_, Writing("f", 0, "text")), Nfsstat3::kOk);
  ++verifier_;
  EXPECT_EQ(call.EndWrite(context_, Nfsstat3::kOk, 4).resok.verf, 7u);
}

}  // namespace
}  // namespace pollux::nfs
