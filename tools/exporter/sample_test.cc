#include "tools/exporter/sample.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "stack/engine/runtime_directory.h"

namespace pollux::tools {
namespace {

using nlohmann::ordered_json;
using SharedSample = std::shared_ptr<const ordered_json>;

TEST(TakeSampleTest, AProcessThatTellsOnlyItsCountersIsNotSilent) {
  std::string base = std::filesystem::temp_directory_path() / "plxXXXXXX";
  ASSERT_NE(mkdtemp(base.data()), nullptr);
  const std::string path = base + "/dpdk/fake/" + engine::kTelemetrySocket;
  mkdir((base + "/dpdk").c_str(), 0700);
  mkdir((base + "/dpdk/fake").c_str(), 0700);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  int client = -1;
  std::thread process([listener, &client] {
    client = accept(listener, nullptr, nullptr);
    // It sends its greeting and its counters, but no answer when the connections are read.
    for (const std::string_view told : {R"({"version":"DPDK","pid":7,"max_output_len":16384})",
                                        R"({"/pollux/workers":{}})", R"({"/pollux/workers":{}})"}) {
      EXPECT_GT(send(client, told.data(), told.size(), MSG_NOSIGNAL), 0);
    }
  });
  setenv("RUNTIME_DIRECTORY", base.c_str(), 1);
  const ordered_json sample = TakeSample({.timeout_s = 1}, /*connections=*/true);
  unsetenv("RUNTIME_DIRECTORY");
  process.join();
  close(client);
  close(listener);
  std::filesystem::remove_all(base);
  EXPECT_EQ(sample["silent"].size(), 0u) << sample;
  ASSERT_EQ(sample["processes"].size(), 1u) << sample;
  EXPECT_EQ(sample["processes"][0]["pid"], 7) << sample;
  EXPECT_FALSE(sample["processes"][0].contains("connections")) << sample;
}

// Samples that end when they are told to. Each has a number and its kind.
class SamplerTest : public testing::Test {
 protected:
  std::future<SharedSample> Request(bool connections) {
    return std::async(std::launch::async,
                      [this, connections] { return sampler_.Sample(connections); });
  }
  void WaitForBegin(int number) const {
    while (begun_ < number) std::this_thread::yield();
  }
  void End(int number) { ended_ = number; }
  void WaitForWaiting(size_t requests) const {
    while (sampler_.waiting() < requests) std::this_thread::yield();
  }

  std::atomic<int> begun_ = 0, ended_ = 0;
  Sampler sampler_{[this](bool connections) {
    const int number = ++begun_;
    while (ended_ < number) std::this_thread::yield();
    return ordered_json{{"number", number}, {"connections", connections}};
  }};
};

TEST_F(SamplerTest, RequestsThatWaitTogetherShareTheNextSample) {
  auto first = Request(true);
  WaitForBegin(1);
  std::vector<std::future<SharedSample>> waiting;
  for (int i = 0; i < 6; ++i) waiting.push_back(Request(true));
  WaitForWaiting(6);
  End(1);
  EXPECT_EQ((*first.get())["number"], 1);
  WaitForBegin(2);
  End(100);
  // The sample in progress when they came is too old for them.
  for (auto& one : waiting) EXPECT_EQ((*one.get())["number"], 2);
  EXPECT_EQ(begun_, 2);
}

TEST_F(SamplerTest, ARequestWithoutConnectionsWaitsForOneSampleBesidesItsOwn) {
  auto first = Request(true);
  WaitForBegin(1);
  std::vector<std::future<SharedSample>> with;
  for (int i = 0; i < 6; ++i) with.push_back(Request(true));
  auto without = Request(false);
  WaitForWaiting(7);
  End(100);
  // The second sample may be of either kind.
  EXPECT_EQ((*without.get())["number"], 2);
  for (auto& one : with) EXPECT_EQ((*one.get())["connections"], true);
}

TEST_F(SamplerTest, ASampleWithoutConnectionsDoesNotServeRequestsForThem) {
  auto first = Request(false);
  WaitForBegin(1);
  auto without = Request(false);
  WaitForWaiting(1);
  auto with = Request(true);
  WaitForWaiting(2);
  End(100);
  first.get();
  without.get();
  EXPECT_EQ((*with.get())["connections"], true);
}

TEST_F(SamplerTest, EachRequestWithoutOthersTakesANewSample) {
  End(100);
  EXPECT_EQ((*sampler_.Sample(true))["number"], 1);
  EXPECT_EQ((*sampler_.Sample(true))["number"], 2);
  EXPECT_EQ((*sampler_.Sample(false))["number"], 3);
}

}  // namespace
}  // namespace pollux::tools
