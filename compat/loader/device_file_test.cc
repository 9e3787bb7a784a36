// The calls of the library that `pollux run` preloads, by the names that programs find them by.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace pollux::compat {
namespace {

constexpr char kDeviceFile[] = "/dev/infiniband/uverbs_pollux0";
constexpr int kVersion = 1;  // of struct stat, as glibc's headers before 2.33 passed it

using Stat = int(const char* path, struct stat* status);
using VersionedStat = int(int version, const char* path, struct stat* status);

class DeviceFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::filesystem::absolute("compat/libpollux_device_file.so");
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <class Function>
  Function* Find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

 private:
  void* library_ = nullptr;
};

TEST_F(DeviceFileTest, EveryStatFindsTheDevice) {
  for (const char* name : {"stat", "stat64", "lstat", "lstat64"}) {
    Stat* const call = Find<Stat>(name);
    ASSERT_NE(call, nullptr) << name;
    struct stat status {};
    EXPECT_EQ(call(kDeviceFile, &status), 0) << name;
    EXPECT_TRUE(S_ISCHR(status.st_mode)) << name;
  }
  for (const char* name : {"__xstat", "__xstat64", "__lxstat", "__lxstat64"}) {
    VersionedStat* const call = Find<VersionedStat>(name);
    ASSERT_NE(call, nullptr) << name;
    struct stat status {};
    EXPECT_EQ(call(kVersion, kDeviceFile, &status), 0) << name;
    EXPECT_TRUE(S_ISCHR(status.st_mode)) << name;
  }
  EXPECT_EQ(Find<int(const char*, int)>("access")(kDeviceFile, R_OK | W_OK), 0);
}

TEST_F(DeviceFileTest, OtherFilesAreUnchanged) {
  constexpr char kLink[] = "/proc/self/exe";
  struct stat status {};
  EXPECT_EQ(Find<Stat>("stat")(kLink, &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
  EXPECT_EQ(Find<VersionedStat>("__xstat")(kVersion, kLink, &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
  EXPECT_EQ(Find<Stat>("lstat")(kLink, &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(Find<VersionedStat>("__lxstat")(kVersion, kLink, &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(Find<VersionedStat>("__xstat")(kVersion, "/no/such/file", &status), -1);
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace pollux::compat
