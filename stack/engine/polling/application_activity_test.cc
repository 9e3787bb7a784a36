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
  void ExpectEnded(void (ApplicationActivity::*rest)(uint64_t), const std::function<void()>& by) {
    std::atomic<bool> awake{false};
    std::thread rests([&] {
      for (int i = 0; i < 100; ++i) (activity_.*rest)(kFarTooLongNs);
      awake = true;
    });
    while (!awake) {
      by();
      std::this_thread::yield();
    }
    rests.join();
  }
  void SleepAndWakeUp() {
    activity_.SleepBegins();
    activity_.SleepEnds();
  }

  ApplicationActivity activity_;
};

TEST_F(ApplicationActivityTest, ANapEndsWhenTheProgramArmsItsQueue) {
  ExpectEnded(&ApplicationActivity::Nap, [this] { SleepAndWakeUp(); });
  activity_.Armed();
  activity_.Nap(kFarTooLongNs);
}

TEST_F(ApplicationActivityTest, ASleepEndsWhenOneMoreThreadSleeps) {
  activity_.SleepBegins();
  ExpectEnded(&ApplicationActivity::Sleep, [this] { SleepAndWakeUp(); });
}

TEST_F(ApplicationActivityTest, ASleepIsExpectedFromHandOverUntilAPoll) {
  ExpectEnded(&ApplicationActivity::Nap, [this] {
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

TEST_F(ApplicationActivityTest, EndLongNapEndsALongNap) {
  ExpectEnded(&ApplicationActivity::Nap, [this] { activity_.EndLongNap(); });
}

TEST_F(ApplicationActivityTest, EndLongNapDoesNotEndShortNapsAndSleeps) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kShort(ApplicationActivity::kMaxShortNapNs);
  constexpr std::chrono::milliseconds kSleep(50);
  std::atomic<bool> done{false};
  std::thread ends([&] {
    while (!done) activity_.EndLongNap();
  });
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 100; ++i) activity_.Nap(ApplicationActivity::kMaxShortNapNs);
  const Clock::time_point napped = Clock::now();
  activity_.Sleep(std::chrono::nanoseconds(kSleep).count());
  EXPECT_GE(napped - start, 100 * kShort);
  EXPECT_GE(Clock::now() - napped, kSleep);
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
