#include "tools/nfs/transfer.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "tools/nfs/nfs_fixture.h"

namespace pollux::tools {
namespace {

using nfs::Ftype3;
using nfs::Nfsstat3;
using nfs::Procedure;
using ::testing::HasSubstr;

constexpr size_t kLarge = (5u << 20) + 3;

class TransferTest : public NfsTest {
 protected:
  NfsTransfer Put(const std::string& data, const std::string& path) {
    WriteLocal(local_, data);
    return NfsPut(*tree_, *AskLimits(*tree_), local_, path, nullptr);
  }
  NfsTransfer Get(const std::string& path) {
    return NfsGet(*tree_, *AskLimits(*tree_), path, back_, nullptr);
  }
  void ExpectALargeFileIsWrittenAndReadBack() {
    const std::string data = Pattern(kLarge);
    const NfsTransfer put = Put(data, "/f");
    ASSERT_TRUE(put.status.ok()) << put.status;
    EXPECT_TRUE(Remote("f") == data);
    const NfsTransfer get = Get("/f");
    ASSERT_TRUE(get.status.ok()) << get.status;
    EXPECT_TRUE(ReadLocal(back_) == data);
  }
  size_t Files() {
    return AtServer([this] { return files_.files(); });
  }
  void TearDown() override {
    NfsTest::TearDown();
    unlink(local_.c_str());
    unlink(back_.c_str());
  }

  const std::string local_ = TempFile("local");
  const std::string back_ = TempFile("back");
};

TEST_F(TransferTest, FilesOfManySizesAreWrittenAndReadBack) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{3000}, size_t{1} << 20, kLarge}) {
    const std::string data = Pattern(bytes);
    const NfsTransfer put = Put(data, "/f");
    ASSERT_TRUE(put.status.ok()) << put.status;
    EXPECT_EQ(put.bytes, bytes);
    EXPECT_TRUE(Remote("f") == data) << bytes;
    EXPECT_TRUE(AtServer([&] { return files_.Find("f")->durable == files_.Find("f")->data; }));
    const NfsTransfer get = Get("/f");
    ASSERT_TRUE(get.status.ok()) << get.status;
    EXPECT_EQ(get.sha256, put.sha256);
    EXPECT_TRUE(ReadLocal(back_) == data) << bytes;
  }
  // The root, and the one file: no temporary name is left.
  EXPECT_EQ(Files(), 2u);
}

TEST_F(TransferTest, LimitsComeFromTheServer) {
  const auto limits = AskLimits(*tree_);
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->read_bytes, nfs::kMaxFileData);
  EXPECT_EQ(limits->in_flight, kMaxInFlight);
}

// RFC 1813 sections 3.3.6 and 3.3.7
TEST_F(TransferTest, ReadsAndWritesStayWithinTheLimitsOfTheServer) {
  AtServer([this] {
    files_.rtmax = 100'000;
    files_.wtmax = 70'000;
  });
  ExpectALargeFileIsWrittenAndReadBack();
}

// RFC 1813 section 3.1
TEST_F(TransferTest, RepliesWithoutOptionalAttributesAreEnough) {
  AtServer([this] { files_.optional_results = false; });
  ExpectALargeFileIsWrittenAndReadBack();
}

TEST_F(TransferTest, TheRestOfAShortReadOrWriteIsRequestedAgain) {
  AtServer([this] { files_.most_bytes = 300'000; });
  ExpectALargeFileIsWrittenAndReadBack();
}

TEST_F(TransferTest, DataLostByAServerRestartIsResent) {
  AtServer([this] { files_.restart_at_write = 4; });
  const std::string data = Pattern(kLarge);
  const NfsTransfer put = Put(data, "/f");
  ASSERT_TRUE(put.status.ok()) << put.status;
  EXPECT_TRUE(Remote("f") == data);
  EXPECT_TRUE(AtServer([&] { return files_.Find("f")->durable == files_.Find("f")->data; }));
  AtServer([this] {
    EXPECT_EQ(files_.restarts, 1u);
    // Six blocks, and the three before the restart again.
    EXPECT_EQ(files_.calls[Procedure::kWrite], 9u);
    EXPECT_EQ(files_.calls[Procedure::kCommit], 2u);
  });
}

TEST_F(TransferTest, APartlyLostBlockIsResentWhole) {
  AtServer([this] {
    files_.most_bytes = 200'000;
    files_.restart_at_write = 2;
  });
  const std::string data = Pattern(1 << 20);
  const NfsTransfer put = Put(data, "/f");
  ASSERT_TRUE(put.status.ok()) << put.status;
  EXPECT_TRUE(AtServer([&] {
    const auto& durable = files_.Find("f")->durable;
    return std::string(durable.begin(), durable.end()) == data;
  }));
}

TEST_F(TransferTest, TheModeIsThatOfTheReplacedOrTheLocalFile) {
  WriteLocal(local_, "x");
  ASSERT_EQ(chmod(local_.c_str(), 0750), 0);
  ASSERT_TRUE(NfsPut(*tree_, *AskLimits(*tree_), local_, "/f", nullptr).status.ok());
  EXPECT_EQ(AtServer([this] { return files_.Find("f")->attributes.mode; }), 0750u);
  AtServer([this] { files_.Find("f")->attributes.mode = 0600; });
  ASSERT_TRUE(NfsPut(*tree_, *AskLimits(*tree_), local_, "/f", nullptr).status.ok());
  EXPECT_EQ(AtServer([this] { return files_.Find("f")->attributes.mode; }), 0600u);
}

TEST_F(TransferTest, AServerWithoutExclusiveCreateIsSupported) {
  AtServer([this] { files_.exclusive = false; });
  ASSERT_TRUE(Put("data", "/f").status.ok());
  EXPECT_EQ(Remote("f"), "data");
}

TEST_F(TransferTest, ARenameWithALostReplyIsNotAnError) {
  AtServer([this] { files_.forgets_at_rename = 1; });
  const NfsTransfer put = Put("data", "/f");
  EXPECT_TRUE(put.status.ok()) << put.status;
  EXPECT_EQ(Remote("f"), "data");
}

TEST_F(TransferTest, AFullDiskKeepsTheOldFile) {
  ASSERT_TRUE(Put("old", "/f").status.ok());
  AtServer([this] { files_.space = 2 << 20; });
  const NfsTransfer put = Put(Pattern(kLarge), "/f");
  EXPECT_EQ(put.status.message(), "/srv/f: the server has no space left (NFS3ERR_NOSPC)");
  EXPECT_EQ(Remote("f"), "old");
  EXPECT_EQ(Files(), 2u);
}

TEST_F(TransferTest, AFailedGetKeepsTheOldFile) {
  ASSERT_TRUE(Put(Pattern(kLarge), "/f").status.ok());
  WriteLocal(back_, "old");
  AtServer([this] { files_.deny = Nfsstat3::kAcces; });
  EXPECT_EQ(Get("/f").status.message(), "/srv/f: permission denied (NFS3ERR_ACCES)");
  EXPECT_EQ(ReadLocal(back_), "old");
}

TEST_F(TransferTest, ErrorsNameTheRemoteFile) {
  EXPECT_THAT(std::string(Get("/none").status.message()), HasSubstr("/srv/none: no such file"));
  EXPECT_THAT(std::string(Get("/").status.message()), HasSubstr("/srv is not a regular file"));
  AtServer([this] { files_.Add(1, "dir", Ftype3::kDir); });
  EXPECT_THAT(std::string(Put("x", "/dir").status.message()), HasSubstr("/srv/dir is a directory"));
  EXPECT_THAT(std::string(Put("x", "/none/f").status.message()), HasSubstr("NFS3ERR_NOENT"));
  AtServer([this] { files_.deny = Nfsstat3::kRofs; });
  EXPECT_THAT(std::string(Put("x", "/new").status.message()), HasSubstr("read-only"));
}

// RFC 1813 section 3.3.6: the data of small READs are in the message, whatever room was offered.
TEST_F(TransferTest, AServerThatSendsMoreThanWasAskedForIsAnError) {
  ASSERT_TRUE(Put(Pattern(4000), "/f").status.ok());
  AtServer([this] {
    files_.rtmax = 1000;
    files_.excess = 1000;
  });
  const NfsTransfer get = Get("/f");
  EXPECT_EQ(get.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(get.status.message()), HasSubstr("2000 bytes, of 1000"));
}

TEST_F(TransferTest, TinyLimitsOfTheServerAreAnError) {
  for (uint32_t nfs::MemoryServer::*limit :
       {&nfs::MemoryServer::rtmax, &nfs::MemoryServer::wtmax}) {
    const uint32_t before = AtServer([&] { return std::exchange(files_.*limit, 1); });
    EXPECT_EQ(AskLimits(*tree_).status().code(), absl::StatusCode::kDataLoss);
    AtServer([&] { files_.*limit = before; });
  }
}

TEST_F(TransferTest, AFileThatShrinksDuringAGetIsAnError) {
  ASSERT_TRUE(Put(Pattern(kLarge), "/f").status.ok());
  AtServer([this] { files_.Find("f")->data.resize(100); });
  const NfsTransfer get = Get("/f");
  EXPECT_EQ(get.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(get.status.message()), HasSubstr("became shorter"));
}

TEST_F(TransferTest, ALocalFileThatChangesDuringAPutDoesNotReplaceTheOldOne) {
  ASSERT_TRUE(Put("old", "/f").status.ok());
  WriteLocal(local_, Pattern(kLarge));
  std::filesystem::last_write_time(local_, {});
  const NfsTransfer put = NfsPut(
      *tree_, *AskLimits(*tree_), local_, "/f",
      [this](uint64_t, uint64_t) { std::fstream(local_, std::ios::in | std::ios::out) << "x"; });
  EXPECT_EQ(put.status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(put.status.message(), local_ + ": the file changed while it was sent");
  EXPECT_EQ(Remote("f"), "old");
  EXPECT_EQ(Files(), 2u);
}

TEST_F(TransferTest, ATransferSurvivesAServerRestart) {
  const std::string data = Pattern(kLarge);
  bool gone = false;  // at the first tick, or before COMMIT
  WriteLocal(local_, data);
  const Progress restart = [&](uint64_t, uint64_t) {
    if (std::exchange(gone, true)) return;
    AtServer([this] {
      server_.reset();
      files_.Restart();
    });
    StartServer();
  };
  const NfsTransfer put = NfsPut(
      *tree_, {.read_bytes = 65536, .write_bytes = 65536, .in_flight = 4}, local_, "/f", restart);
  ASSERT_TRUE(put.status.ok()) << put.status;
  EXPECT_TRUE(gone);
  EXPECT_TRUE(AtServer([&] {
    const auto& durable = files_.Find("f")->durable;
    return std::string(durable.begin(), durable.end()) == data;
  }));
}

}  // namespace
}  // namespace pollux::tools
