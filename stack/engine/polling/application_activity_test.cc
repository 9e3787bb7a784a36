#include "stack/engine/polling/application_activity.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace pollux::engine {
namespace {

class ApplicationActivityTest : public testing::Test {
 protected:
  // Of a hundred rests that are all too long, by what the application does meanwhile.
  static constexpr uint64_t kFarTooLongNs = 999'999'999;
  void ExpectEnded(const std::function<void()>& rest, const std::function<void()>& by) {
    std::atomic<bool> awake{false};
    std::thread rests([&] {
      for (int i = 0; i < 100; ++i) rest();
      awake = true;
    });
    while (!awake) {
      by();
      std::this_thread::yield();
    }
    rests.join();
  }
  void ExpectNapEnded(const std::function<void()>& by) {
    ExpectEnded([this] { activity_.Nap(kFarTooLongNs); }, by);
  }
  void SleepAndWakeUp() {
    activity_.SleepBegins();
    activity_.SleepEnds();
  }

  ApplicationActivity activity_;
};

TEST_F(ApplicationActivityTest, ANapEndsWhenTheProgramArmsItsQueue) {
  ExpectNapEnded([this] { SleepAndWakeUp(); });
  activity_.Armed();
  activity_.Nap(kFarTooLongNs);
}

TEST_F(ApplicationActivityTest, ASleepEndsWhenOneMoreThreadSleeps) {
  activity_.SleepBegins();
  ExpectEnded([this] { activity_.Sleep(kFarTooLongNs, activity_.announced()); },
              [this] { SleepAndWakeUp(); });
}

TEST_F(ApplicationActivityTest, ASleepDoesNotBeginAfterOneMoreThreadHasAnnouncedOne) {
  const auto start = std::chrono::steady_clock::now();
  constexpr int kSleeps = 100;
  for (int i = 0; i < kSleeps; ++i) {
    const uint32_t announced = activity_.announced();
    SleepAndWakeUp();
    activity_.Sleep(kFarTooLongNs, announced);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            kSleeps * std::chrono::nanoseconds(kFarTooLongNs));
}

TEST_F(ApplicationActivityTest, ASleepIsExpectedFromHandOverUntilAPoll) {
  ExpectNapEnded([this] {
    activity_.HandOver();
    activity_.Polled(1);
  });
  EXPECT_FALSE(activity_.ExpectsSleep());
  activity_.HandOver();
  EXPECT_TRUE(activity_.ExpectsSleep());
  activity_.Nap(kFarTooLongNs);
  activity_.Polled(2);
  EXPECT_FALSE(activity_.ExpectsSleep());
}

TEST_F(ApplicationActivityTest, NoSleepIsExpectedAfterTakeBack) {
  activity_.HandOver();
  activity_.TakeBack();
  EXPECT_FALSE(activity_.ExpectsSleep());
}

TEST_F(ApplicationActivityTest, EndLongNapEndsALongNapAndALongSleep) {
  ExpectNapEnded([this] { activity_.EndLongNap(); });
  ExpectEnded([this] { activity_.Sleep(kFarTooLongNs, activity_.announced()); },
              [this] { activity_.EndLongNap(); });
}

TEST_F(ApplicationActivityTest, EndLongNapDoesNotEndShortNapsAndSleeps) {
  using Clock = std::chrono::steady_clock;
  constexpr uint64_t kShortNs = ApplicationActivity::kMaxShortNapNs;
  constexpr std::chrono::nanoseconds kShort(kShortNs);
  std::atomic<bool> done{false};
  std::thread ends([&] {
    while (!done) activity_.EndLongNap();
  });
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 100; ++i) activity_.Nap(kShortNs);
  const Clock::time_point napped = Clock::now();
  for (int i = 0; i < 100; ++i) activity_.Sleep(kShortNs, activity_.announced());
  EXPECT_GE(napped - start, 100 * kShort);
  EXPECT_GE(Clock::now() - napped, 100 * kShort);
  done = true;
  ends.join();
}

TEST_F(ApplicationActivityTest, NoSleepIsExpectedAfterRepeatedEmptyPolls) {
  activity_.Armed();
  for (uint32_t i = 0; i < ApplicationActivity::kEmptyPollsOfSleeper; ++i) {
    EXPECT_TRUE(activity_.ExpectsSleep()) << i;
    activity_.FoundNothing();
  }
  EXPECT_FALSE(activity_.ExpectsSleep());
}

}  // namespace
}  // namespace pollux::engine
