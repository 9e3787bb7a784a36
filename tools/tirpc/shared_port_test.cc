#include "tools/tirpc/shared_port.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

// With a memif port, which a process can open only once.
class SharedPortTest : public testing::Test {
 protected:
  void SetUp() override {
    // A socket's path may have about 100 bytes.
    std::string pattern = std::filesystem::temp_directory_path() / "plxXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    options_ = absl::StrCat("--port net_memif0,role=server,socket=", directory_,
                            "/s --address 192.0.2.1/24 --idle sleep");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_, options_;
};

TEST_F(SharedPortTest, UsersOfAPortShareItUntilTheLastReleasesIt) {
  auto first = OpenRpcPlace(options_.c_str());
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = OpenRpcPlace((options_ + " --service-port 7").c_str());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->node, second->node);
  EXPECT_EQ(second->service_port, 7);
  const std::string other = options_ + " --mtu 1024";
  EXPECT_TRUE(absl::IsInvalidArgument(OpenRpcPlace(other.c_str()).status()));
  first->node.reset();
  EXPECT_EQ(second->node->Run([] { return 1; }), 1);
  second->node.reset();
  const auto third = OpenRpcPlace(other.c_str());
  EXPECT_TRUE(third.ok()) << third.status();
}

TEST_F(SharedPortTest, APortCanBeOpenedWhileItsLastUserReleasesIt) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([this] {
      for (int turn = 0; turn < 20; ++turn) {
        const auto place = OpenRpcPlace(options_.c_str());
        ASSERT_TRUE(place.ok()) << place.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace pollux::tools
