#include "tools/common/local_file.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace {
bool fsync_fails = false;
}

extern "C" int fsync(int /*fd*/) {
  if (fsync_fails) errno = ENOSPC;
  return fsync_fails ? -1 : 0;
}

namespace pollux::tools {
namespace {

class LocalFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/local_file_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Fill(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  std::string Text(const std::string& name) const {
    std::ifstream file(Path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t Entries() const {
    const std::filesystem::directory_iterator all(directory_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  std::string directory_;
};

TEST_F(LocalFileTest, SourceReportsItsSize) {
  Fill("a", "12345");
  const SourceFile file(Path("a"));
  ASSERT_TRUE(file.status().ok()) << file.status();
  EXPECT_EQ(file.bytes(), 5u);
}

TEST_F(LocalFileTest, SourceMustExistAndBeRegular) {
  EXPECT_TRUE(absl::IsNotFound(SourceFile(Path("nosuch")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SourceFile(directory_).status()));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(SourceFile(Path("pipe")).status()));
}

TEST_F(LocalFileTest, SourceMustHaveASize) {
  EXPECT_TRUE(absl::IsInvalidArgument(SourceFile("/proc/self/status").status()));
  Fill("empty", "");
  EXPECT_TRUE(SourceFile(Path("empty")).status().ok());
}

TEST_F(LocalFileTest, AChangedSourceIsNoticed) {
  Fill("a", "12345");
  std::filesystem::last_write_time(Path("a"), {});
  const SourceFile before(Path("a"));
  EXPECT_TRUE(before.CheckUnchanged().ok());
  Fill("a", "abcde");
  EXPECT_TRUE(absl::IsAborted(before.CheckUnchanged()));
  const SourceFile file(Path("a"));
  const auto written = std::filesystem::last_write_time(Path("a"));
  Fill("a", "abcdef");
  std::filesystem::last_write_time(Path("a"), written);
  EXPECT_TRUE(absl::IsAborted(file.CheckUnchanged()));
}

TEST_F(LocalFileTest, DigestCoversTheGivenNumberOfBytes) {
  constexpr size_t kMany = (size_t{1} << 20) + 5;  // more than are read at once
  Fill("a", std::string(kMany, 'x'));
  Fill("more", std::string(kMany, 'x') + "y");
  Fill("abc", "abc, and more");
  const SourceFile some(Path("a")), more(Path("more")), abc(Path("abc"));
  ASSERT_TRUE(Sha256OfFile(some.fd(), kMany).ok());
  EXPECT_EQ(*Sha256OfFile(some.fd(), kMany), *Sha256OfFile(more.fd(), kMany));
  EXPECT_NE(*Sha256OfFile(some.fd(), kMany), *Sha256OfFile(more.fd(), kMany + 1));
  // FIPS 180-4's example.
  EXPECT_EQ(*Sha256OfFile(abc.fd(), 3),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(absl::IsAborted(Sha256OfFile(some.fd(), kMany + 1).status()));
}

TEST_F(LocalFileTest, DestinationReplacesOnlyWhenComplete) {
  Fill("a", "old");
  ASSERT_EQ(chmod(Path("a").c_str(), 0640), 0);
  {
    const DestinationFile file(Path("a"));
    ASSERT_TRUE(file.status().ok()) << file.status();
    ASSERT_EQ(write(file.fd(), "half", 4), 4);
  }
  EXPECT_EQ(Text("a"), "old");
  EXPECT_EQ(Entries(), 1u);
  DestinationFile file(Path("a"));
  ASSERT_EQ(write(file.fd(), "new", 3), 3);
  ASSERT_TRUE(file.Complete().ok());
  EXPECT_EQ(Text("a"), "new");
  EXPECT_EQ(Entries(), 1u);
  struct stat st;
  ASSERT_EQ(stat(Path("a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
}

TEST_F(LocalFileTest, ANameMayBeAsLongAsTheFileSystemAllows) {
  const std::string longest(NAME_MAX, 'n');
  DestinationFile file(Path(longest));
  ASSERT_TRUE(file.status().ok()) << file.status();
  EXPECT_TRUE(file.Complete().ok());
  EXPECT_TRUE(std::filesystem::exists(Path(longest)));
  EXPECT_FALSE(DestinationFile(Path(longest + "n")).status().ok());
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(LocalFileTest, NewDestinationFollowsTheUmask) {
  const mode_t mask = umask(027);
  DestinationFile file(Path("a"));
  umask(mask);
  ASSERT_TRUE(file.Complete().ok());
  struct stat st;
  ASSERT_EQ(stat(Path("a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
}

TEST_F(LocalFileTest, ASymbolicLinkIsKept) {
  Fill("a", "old");
  ASSERT_EQ(symlink("a", Path("link").c_str()), 0);
  DestinationFile file(Path("link"));
  ASSERT_EQ(write(file.fd(), "new", 3), 3);
  ASSERT_TRUE(file.Complete().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Text("a"), "new");
}

TEST_F(LocalFileTest, DestinationMustBeWritableAndRegular) {
  EXPECT_TRUE(absl::IsInvalidArgument(DestinationFile(directory_).status()));
  EXPECT_TRUE(absl::IsNotFound(DestinationFile(Path("nosuch/a")).status()));
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(LocalFileTest, AFileThatCannotBeStoredDoesNotReplaceTheOldOne) {
  Fill("a", "old");
  DestinationFile file(Path("a"));
  ASSERT_TRUE(file.status().ok()) << file.status();
  fsync_fails = true;
  EXPECT_TRUE(absl::IsResourceExhausted(file.Complete()));
  fsync_fails = false;
  EXPECT_EQ(Text("a"), "old");
}

TEST_F(LocalFileTest, SetUserIdBitsKeepTheirOwner) {
  constexpr uid_t kOther = 4321;
  Fill("a", "old");
  if (chown(Path("a").c_str(), kOther, kOther) != 0) GTEST_SKIP() << "needs the right to chown";
  ASSERT_EQ(chmod(Path("a").c_str(), 04755), 0);
  DestinationFile file(Path("a"));
  ASSERT_TRUE(file.Complete().ok());
  struct stat st;
  ASSERT_EQ(stat(Path("a").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, kOther);
  EXPECT_EQ(st.st_mode & 07777, 04755u);
}

}  // namespace
}  // namespace pollux::tools
