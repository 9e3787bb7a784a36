#include "stack/engine/runtime_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

namespace pollux::engine {
namespace {

namespace fs = std::filesystem;

class RuntimeDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/plxXXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    base_ = pattern;
    setenv("RUNTIME_DIRECTORY", base_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("RUNTIME_DIRECTORY");
    fs::remove_all(base_);
  }
  // As left by a process: its directory and socket, of that age. The socket's descriptor.
  int Leave(const std::string& name, int age_s) {
    const fs::path directory = base_ / "dpdk" / name;
    fs::create_directories(directory);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (directory / kTelemetrySocket).c_str());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd, 1), 0);
    const timespec then{.tv_sec = std::time(nullptr) - age_s, .tv_nsec = 0};
    const timespec times[] = {then, then};
    EXPECT_EQ(utimensat(AT_FDCWD, directory.c_str(), times, 0), 0);
    return fd;
  }
  bool Exists(const std::string& name) const { return fs::exists(base_ / "dpdk" / name); }

  fs::path base_;
};

TEST_F(RuntimeDirectoryTest, FollowsTheRulesOfDpdk) {
  EXPECT_EQ(RuntimeDirectory(), base_.string() + "/dpdk");
  unsetenv("RUNTIME_DIRECTORY");
  if (getuid() == 0) {
    EXPECT_EQ(RuntimeDirectory(), "/var/run/dpdk");
  }
}

TEST_F(RuntimeDirectoryTest, IsCreatedEmpty) {
  ASSERT_TRUE(MakeRuntimeDirectory("pollux-1").ok());
  EXPECT_TRUE(fs::is_empty(base_ / "dpdk/pollux-1"));
  EXPECT_TRUE(MakeRuntimeDirectory("pollux-1").ok()) << "there already";
}

TEST_F(RuntimeDirectoryTest, IsRemovedOnlyByTheProcessThatMadeIt) {
  const auto run = [](auto&& body) {
    const pid_t process = fork();
    if (process == 0) body();
    waitpid(process, nullptr, 0);
  };
  run([&] {
    (void)MakeRuntimeDirectory("pollux-1");
    run([] { std::exit(0); });
    std::exit(Exists("pollux-1") && mkdir((base_ / "kept").c_str(), 0700) == 0 ? 0 : 1);
  });
  EXPECT_TRUE(fs::exists(base_ / "kept")) << "a child has removed it";
  EXPECT_FALSE(Exists("pollux-1"));
}

TEST_F(RuntimeDirectoryTest, ADirectoryThatCannotBeCreatedIsAnError) {
  setenv("RUNTIME_DIRECTORY", "/proc/nowhere", 1);
  const absl::Status nowhere = MakeRuntimeDirectory("pollux-1");
  EXPECT_NE(nowhere.message().find("/proc/nowhere/dpdk"), std::string::npos) << nowhere;
  std::ofstream(base_ / "file") << "x";
  setenv("RUNTIME_DIRECTORY", (base_ / "file").c_str(), 1);
  EXPECT_FALSE(MakeRuntimeDirectory("pollux-1").ok());
  const fs::path deep = base_ / std::string(100, 'd');
  fs::create_directory(deep);
  setenv("RUNTIME_DIRECTORY", deep.c_str(), 1);
  const absl::Status too_long = MakeRuntimeDirectory("pollux-1");
  EXPECT_NE(too_long.message().find("longer than"), std::string::npos) << too_long;
}

TEST_F(RuntimeDirectoryTest, SymbolicLinksAreRefused) {
  fs::create_directory(base_ / "elsewhere");
  for (const char* link : {"dpdk", "dpdk/pollux-1"}) {
    fs::create_directory_symlink(base_ / "elsewhere", base_ / link);
    const absl::Status status = MakeRuntimeDirectory("pollux-1");
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    for (const std::string& words : {(base_ / link).string() + " is a symbolic link",
                                     std::string("remove it"), std::string("XDG_RUNTIME_DIR")}) {
      EXPECT_NE(status.message().find(words), std::string::npos) << status;
    }
    EXPECT_TRUE(fs::is_empty(base_ / "elsewhere")) << link;
    fs::remove(base_ / link);
    fs::create_directory(base_ / "dpdk");
  }
}

TEST_F(RuntimeDirectoryTest, DirectoriesOfOrWritableByOthersAreRefused) {
  for (const char* name : {"dpdk", "dpdk/pollux-1"}) {
    fs::create_directory(base_ / name);
    fs::permissions(base_ / name, fs::perms::all);
    const absl::Status writable = MakeRuntimeDirectory("pollux-1");
    EXPECT_EQ(writable.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_NE(writable.message().find("is writable by other users"), std::string::npos) << writable;
    fs::permissions(base_ / name, fs::perms::owner_all);
    if (chown((base_ / name).c_str(), 1, 1) == 0) {  // takes root
      const absl::Status other = MakeRuntimeDirectory("pollux-1");
      EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_NE(other.message().find("belongs to user 1"), std::string::npos) << other;
      ASSERT_EQ(chown((base_ / name).c_str(), geteuid(), getegid()), 0);
    }
  }
  EXPECT_TRUE(MakeRuntimeDirectory("pollux-1").ok());
}

TEST_F(RuntimeDirectoryTest, NothingIsRemovedThroughASymbolicLink) {
  close(Leave("pollux-1", 2 * kStaleSeconds));
  fs::rename(base_ / "dpdk", base_ / "elsewhere");
  fs::create_directory_symlink(base_ / "elsewhere", base_ / "dpdk");
  RemoveStaleDirectories();
  EXPECT_TRUE(Exists("pollux-1"));
}

TEST_F(RuntimeDirectoryTest, RemovesOnlyStaleDirectoriesWithoutAListener) {
  close(Leave("pollux-1", 2 * kStaleSeconds));
  close(Leave("pollux-2", kStaleSeconds / 2));
  const int alive = Leave("pollux-3", 2 * kStaleSeconds);
  close(Leave("rte", 2 * kStaleSeconds));
  ASSERT_TRUE(MakeRuntimeDirectory("chosen").ok());
  close(Leave("chosen", 2 * kStaleSeconds));
  RemoveStaleDirectories();
  EXPECT_FALSE(Exists("pollux-1"));
  EXPECT_FALSE(Exists("chosen")) << "by --file-prefix";
  EXPECT_TRUE(Exists("pollux-2")) << "may have just begun";
  EXPECT_TRUE(Exists("pollux-3")) << "listens";
  EXPECT_TRUE(Exists("rte")) << "another program's";
  close(alive);
}

TEST_F(RuntimeDirectoryTest, DirectoriesThatCannotBeProbedAreKept) {
  close(Leave("pollux-1", 2 * kStaleSeconds));
  const std::string long_name = "pollux-" + std::string(80, '1');
  fs::rename(base_ / "dpdk/pollux-1", base_ / "dpdk" / long_name);
  RemoveStaleDirectories();
  EXPECT_TRUE(Exists(long_name)) << "its socket's name is longer than one may be";
}

TEST_F(RuntimeDirectoryTest, CleaningWithoutADirectoryDoesNothing) { RemoveStaleDirectories(); }

}  // namespace
}  // namespace pollux::engine
