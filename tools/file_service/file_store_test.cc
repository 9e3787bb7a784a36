#include "tools/file_service/file_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <thread>

namespace pollux::tools {
namespace {

class FileStoreTest : public ::testing::Test {
 protected:
  FileStoreTest() {
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/storeXXXXXX";
    outer_ = mkdtemp(pattern.data());
    mkdir((outer_ + "/root").c_str(), 0755);
    store_ = *FileStore::Open(outer_ + "/root");
  }
  absl::Status Put(const std::string& name, const std::string& data, uint64_t offset = 0) {
    return store_->Write(
        name, offset,
        absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(data.data()), data.size()));
  }
  std::string Get(const std::string& name, uint64_t offset, size_t most) {
    std::string buffer(most, '\0');
    const auto n = store_->Read(
        name, offset, absl::Span<uint8_t>(reinterpret_cast<uint8_t*>(buffer.data()), most));
    EXPECT_TRUE(n.ok()) << n.status();
    buffer.resize(n.ok() ? *n : 0);
    return buffer;
  }
  std::string outer_;
  std::unique_ptr<FileStore> store_;
};

TEST_F(FileStoreTest, ACreatedFileIsWrittenAndRead) {
  EXPECT_FALSE(Put("f", "x").ok()) << "not there yet";
  ASSERT_TRUE(store_->Create("f").ok());
  ASSERT_TRUE(Put("f", "hello").ok());
  ASSERT_TRUE(Put("f", "world", 5).ok());
  EXPECT_EQ(Get("f", 3, 4), "lowo");
  EXPECT_EQ(Get("f", 8, 100), "ld");
  EXPECT_EQ(Get("f", 10, 100), "");
  EXPECT_EQ(store_->Stat("f")->size, 10u);
  ASSERT_TRUE(store_->Create("f").ok());
  EXPECT_EQ(store_->Stat("f")->size, 0u);
  EXPECT_EQ(Get("f", 0, 100), "") << "the old file is not read on";
}

// The file that stays open must be the one that the name leads to now.
TEST_F(FileStoreTest, AReplacedFileIsReadByItsNewContents) {
  ASSERT_TRUE(store_->Create("f").ok());
  ASSERT_TRUE(Put("f", "old").ok());
  EXPECT_EQ(Get("f", 0, 3), "old");
  ASSERT_TRUE(store_->Create("g").ok());
  ASSERT_TRUE(Put("g", "new").ok());
  EXPECT_EQ(Get("f", 0, 3), "old");
  ASSERT_EQ(rename((outer_ + "/root/g").c_str(), (outer_ + "/root/f").c_str()), 0);
  EXPECT_EQ(Get("f", 0, 3), "new");
  ASSERT_EQ(unlink((outer_ + "/root/f").c_str()), 0);
  uint8_t byte;
  EXPECT_FALSE(store_->Read("f", 0, {&byte, 1}).ok());
}

// One that is read piece by piece stays the same.
TEST_F(FileStoreTest, AReaderKeepsAReplacedFile) {
  ASSERT_TRUE(store_->Create("f").ok());
  ASSERT_TRUE(Put("f", "old one").ok());
  auto reader = store_->OpenReader("f");
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::array<uint8_t, 4> buffer;
  EXPECT_EQ(*reader->Read(0, absl::MakeSpan(buffer)), 4u);
  ASSERT_TRUE(store_->Create("g").ok());
  ASSERT_TRUE(Put("g", "new one").ok());
  ASSERT_EQ(rename((outer_ + "/root/g").c_str(), (outer_ + "/root/f").c_str()), 0);
  EXPECT_EQ(Get("f", 0, 3), "new");
  FileStore::Reader moved = *std::move(reader);
  EXPECT_EQ(*moved.Read(4, absl::MakeSpan(buffer)), 3u);
  EXPECT_EQ(std::string(buffer.begin(), buffer.begin() + 3), "one");
  EXPECT_EQ(*moved.Read(7, absl::MakeSpan(buffer)), 0u);
  EXPECT_EQ(store_->OpenReader("h").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FileStoreTest, LookupsCannotLeaveTheRoot) {
  ASSERT_EQ(close(open((outer_ + "/secret").c_str(), O_CREAT | O_WRONLY, 0644)), 0);
  ASSERT_EQ(symlink("../secret", (outer_ + "/root/link").c_str()), 0);
  ASSERT_EQ(symlink("..", (outer_ + "/root/up").c_str()), 0);
  for (const char* name : {"../secret", "/etc/passwd", "link", "up/secret", "up", "./../secret",
                           "..", "", "/", "//"}) {
    EXPECT_FALSE(store_->Stat(name).ok()) << name;
    EXPECT_FALSE(Put(name, "x").ok()) << name;
    EXPECT_FALSE(store_->Create(name).ok()) << name;
  }
  for (const char* name : {"link", "link/", "up/secret"}) {
    EXPECT_EQ(store_->Stat(name).status().code(), absl::StatusCode::kPermissionDenied) << name;
  }
  EXPECT_FALSE(store_->Stat({"..\0/secret", 10}).ok()) << "a NUL hides no component";
}

TEST_F(FileStoreTest, PathsLeadThroughDirectories) {
  ASSERT_EQ(mkdir((outer_ + "/root/dir").c_str(), 0755), 0);
  ASSERT_EQ(mkdir((outer_ + "/root/dir/inner").c_str(), 0755), 0);
  ASSERT_TRUE(store_->Create("dir/inner/f").ok());
  ASSERT_TRUE(Put("./dir//inner/f", "x").ok());
  EXPECT_EQ(Get("dir/inner/f", 0, 1), "x");
  EXPECT_FALSE(store_->Stat("dir/../dir").ok());
  EXPECT_EQ(store_->Create("none/f").code(), absl::StatusCode::kNotFound);
}

TEST_F(FileStoreTest, OnlyADirectoryMayHaveATrailingSlash) {
  ASSERT_EQ(mkdir((outer_ + "/root/dir").c_str(), 0755), 0);
  EXPECT_TRUE(store_->Stat("dir/")->directory);
  ASSERT_TRUE(store_->Create("f").ok());
  EXPECT_EQ(store_->Stat("f/").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Put("f/", "x").ok());
  EXPECT_EQ(store_->Create("f/").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Create("none/").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Stat("none").status().code(), absl::StatusCode::kNotFound);
}

// Makes openat2() fail for this thread, as systemd does for services with DynamicUser=.
bool ForbidOpenat2() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(code), .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(FileStoreTest, ServesWhereSystemdForbidsOpenat2) {
  std::thread service([this] {
    ASSERT_TRUE(ForbidOpenat2());
    ASSERT_TRUE(store_->Create("f").ok());
    ASSERT_TRUE(Put("f", "hello").ok());
    EXPECT_EQ(Get("f", 0, 5), "hello");
    EXPECT_EQ(store_->Stat("f")->size, 5u);
  });
  service.join();
}

TEST_F(FileStoreTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo((outer_ + "/root/pipe").c_str(), 0644), 0);
  ASSERT_EQ(mkdir((outer_ + "/root/dir").c_str(), 0755), 0);
  uint8_t byte;
  EXPECT_FALSE(store_->Read("pipe", 0, absl::Span<uint8_t>(&byte, 1)).ok());
  EXPECT_FALSE(store_->Read("dir", 0, absl::Span<uint8_t>(&byte, 1)).ok());
  EXPECT_FALSE(store_->Stat("pipe").ok());
  EXPECT_TRUE(store_->Stat("dir")->directory);
}

TEST_F(FileStoreTest, ListsByNameInPages) {
  for (const char* name : {"b", "a", "c"}) ASSERT_TRUE(store_->Create(name).ok());
  const auto first = store_->List("", 2);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->size(), 2u);
  EXPECT_EQ((*first)[0].name, "a");
  const auto rest = store_->List("b", 2);
  ASSERT_EQ(rest->size(), 1u);
  EXPECT_EQ((*rest)[0].name, "c");
}

TEST_F(FileStoreTest, ListingFollowsChanges) {
  for (const char* name : {"c", "a", "b"}) {
    ASSERT_TRUE(store_->Create(name).ok());
    EXPECT_EQ(store_->List("", 10)->size(), name[0] == 'c' ? 1u : name[0] == 'a' ? 2u : 3u);
  }
  ASSERT_EQ(unlink((outer_ + "/root/b").c_str()), 0);
  // Long unchanged, as far as the clock can tell; then changed again.
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (outer_ + "/root").c_str(), old, 0), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(store_->List("", 10)->size(), 2u);
    EXPECT_EQ(store_->List("a", 10)->size(), 1u);
  }
  ASSERT_TRUE(store_->Create("d").ok());
  EXPECT_EQ(store_->List("a", 10)->size(), 2u);
}

TEST_F(FileStoreTest, AnInvalidRootIsAnError) {
  EXPECT_FALSE(FileStore::Open(outer_ + "/missing").ok());
}

}  // namespace
}  // namespace pollux::tools
