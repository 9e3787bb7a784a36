#include "nfs/export/file_handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

namespace pollux::nfs {
namespace {

using ::testing::HasSubstr;

KernelHandle SomeHandle(uint8_t size) {
  KernelHandle kernel;
  kernel.type = 0x81;
  kernel.size = size;
  for (uint8_t i = 0; i < size; ++i) kernel.bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  return kernel;
}

HandleKey KeyOf(uint8_t byte) {
  std::array<uint8_t, HandleKey::kBytes> key;
  key.fill(byte);
  return HandleKey(key);
}

std::vector<uint8_t> BytesOf(const FileHandle& handle) {
  return {handle.view().begin(), handle.view().end()};
}

TEST(FileHandleTest, OpenReturnsTheSealedHandle) {
  const HandleKey key = KeyOf(1);
  for (const uint8_t size : {0, 8, 12, static_cast<int>(KernelHandle::kMaxBytes)}) {
    const KernelHandle kernel = SomeHandle(size);
    const FileHandle handle = key.Seal(0x1122334455667788, kernel);
    EXPECT_LE(handle.view().size(), FileHandle::kMaxBytes);
    const auto opened = KeyOf(1).Open(handle.view());
    ASSERT_TRUE(opened.has_value());
    EXPECT_EQ(opened->export_id, 0x1122334455667788u);
    EXPECT_EQ(opened->kernel.type, kernel.type);
    EXPECT_EQ(opened->kernel.view(), kernel.view());
    EXPECT_EQ(ClaimedExport(handle.view()), 0x1122334455667788u);
  }
}

TEST(FileHandleTest, AChangedOrTruncatedHandleIsRejected) {
  const HandleKey key = KeyOf(1);
  const std::vector<uint8_t> good = BytesOf(key.Seal(7, SomeHandle(12)));
  EXPECT_FALSE(KeyOf(2).Open(good).has_value());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<uint8_t> bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_FALSE(key.Open(bad).has_value()) << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(key.Open(absl::MakeConstSpan(good).first(size)).has_value()) << size;
  }
  std::vector<uint8_t> longer(good);
  longer.resize(FileHandle::kMaxBytes + 1);
  EXPECT_FALSE(key.Open(longer).has_value());
}

TEST(FileHandleTest, ExportIdsDependOnKeyAndPath) {
  EXPECT_EQ(KeyOf(1).ExportId("/a"), KeyOf(1).ExportId("/a"));
  EXPECT_NE(KeyOf(1).ExportId("/a"), KeyOf(1).ExportId("/b"));
  EXPECT_NE(KeyOf(1).ExportId("/a"), KeyOf(2).ExportId("/a"));
}

TEST(HandleKeyTest, IsCreatedOnceAndReused) {
  const std::string path = std::string(getenv("TEST_TMPDIR")) + "/key";
  const auto first = HandleKey::Load(path);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = HandleKey::Load(path);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->Open(first->Seal(1, SomeHandle(8)).view()).has_value());
  struct stat attributes;
  ASSERT_EQ(stat(path.c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0600u);

  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_THAT(std::string(HandleKey::Load(path).status().message()), HasSubstr("chmod 600"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(truncate(path.c_str(), 5), 0);
  EXPECT_THAT(std::string(HandleKey::Load(path).status().message()), HasSubstr("32 bytes"));
}

TEST(HandleKeyTest, AKeyFileThatCannotBeCreatedIsAnError) {
  const auto key = HandleKey::Load(std::string(getenv("TEST_TMPDIR")) + "/no/key");
  EXPECT_THAT(std::string(key.status().message()), HasSubstr("cannot be created"));
}

}  // namespace
}  // namespace pollux::nfs
