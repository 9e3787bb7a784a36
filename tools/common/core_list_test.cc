#include "tools/common/core_list.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace pollux::tools {
namespace {

std::vector<int> Parsed(const std::string& text) {
  const auto cores = ParseCoreList(text);
  EXPECT_TRUE(cores.ok()) << cores.status();
  return cores.value_or(std::vector<int>{});
}

TEST(CoreListTest, ParsesNumbersAndRanges) {
  EXPECT_EQ(Parsed("3"), (std::vector{3}));
  EXPECT_EQ(Parsed("2,0"), (std::vector{2, 0}));
  EXPECT_EQ(Parsed("2-5"), (std::vector{2, 3, 4, 5}));
  EXPECT_EQ(Parsed("7,1-2,1023"), (std::vector{7, 1, 2, 1023}));
  EXPECT_EQ(Parsed("4-4"), (std::vector{4}));
  EXPECT_EQ(Parsed("0-15").size(), kMaxCores);
}

TEST(CoreListTest, RefusesInvalidLists) {
  for (const char* text : {"", ",", "1,", ",1", "x", "1-", "-1", "1-2-3", "5-2", "1024", "0-1024",
                           "1 x", "0x1", "99999999999"}) {
    EXPECT_EQ(ParseCoreList(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(CoreListTest, RefusesRepeatedAndTooManyCpus) {
  EXPECT_NE(ParseCoreList("1,0-3").status().message().find("CPU 1 twice"), std::string::npos);
  EXPECT_NE(ParseCoreList("0-16").status().message().find("more than 16"), std::string::npos);
}

TEST(CoreListTest, RefusesCpusThatDoNotExist) {
  const std::string root = ::testing::TempDir() + "cpus";
  std::filesystem::remove_all(root);
  EXPECT_TRUE(CheckCpusExist({99}, root).ok());  // where nothing is known
  for (const char* cpu : {"/cpu0", "/cpu2"}) std::filesystem::create_directories(root + cpu);
  EXPECT_TRUE(CheckCpusExist({}, root).ok());
  EXPECT_TRUE(CheckCpusExist({2, 0}, root).ok());
  const absl::Status status = CheckCpusExist({0, 1}, root);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("CPU 1: this machine has no CPU of that number"),
            std::string::npos);
}

}  // namespace
}  // namespace pollux::tools
