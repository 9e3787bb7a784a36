#include "tools/tirpc/shared_port.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
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

TEST_F(SharedPortTest, AReleaseDoesNotWaitForTheOpeningOfAnotherPort) {
  auto place = OpenRpcPlace(options_.c_str());
  ASSERT_TRUE(place.ok()) << place.status();
  // A memif server that never answers.
  const std::string path = directory_ + "/t";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  std::atomic<bool> ended = false;
  std::thread opener([&ended, &path] {
    const std::string options = absl::StrCat("--port net_memif1,role=client,socket=", path,
                                             " --address 192.0.2.2/24 --idle sleep");
    OpenRpcPlace(options.c_str()).status().IgnoreError();
    ended = true;
  });
  const int connection = accept(listener, nullptr, nullptr);
  place->node.reset();
  EXPECT_FALSE(ended);
  close(listener);
  close(connection);
  opener.join();
}

}  // namespace
}  // namespace pollux::tools
