#include "tools/exporter/sample.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace pollux::tools {
namespace {

using nlohmann::ordered_json;
using SharedSample = std::shared_ptr<const ordered_json>;

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
  // Until threads that have just been started wait for a sample.
  static void Settle() { std::this_thread::sleep_for(std::chrono::milliseconds(500)); }

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
  Settle();
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
  Settle();
  End(100);
  // Whichever kind the second one is.
  EXPECT_EQ((*without.get())["number"], 2);
  for (auto& one : with) EXPECT_EQ((*one.get())["connections"], true);
}

TEST_F(SamplerTest, ASampleWithoutConnectionsDoesNotServeRequestsForThem) {
  auto first = Request(false);
  WaitForBegin(1);
  auto without = Request(false);
  Settle();
  auto with = Request(true);
  Settle();
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
