#include "stack/engine/polling/application_activity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "stack/base/thread_state_for_test.h"

namespace pollux::engine {
namespace {

class ApplicationActivityTest : public testing::Test {
 protected:
  static constexpr uint64_t kFarTooLongNs = 999'999'999;
  static constexpr int kRests = 100;
  // `rests` makes kRests naps or sleeps of kFarTooLongNs. They end by themselves, too: if nothing
  // shortens them, they take at least the sum of their lengths.
  void ExpectShortened(const std::function<void()>& rests) {
    const auto start = std::chrono::steady_clock::now();
    rests();
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              kRests * std::chrono::nanoseconds(kFarTooLongNs));
  }
  // Calls `by` once in each nap or sleep. It waits until the thread is asleep: `by` may also
  // prevent one that is about to begin, which would shorten the sum although nothing is ended.
  void ExpectEnded(const std::function<void()>& rest, const std::function<void()>& by) {
    std::atomic<pid_t> id{0};
    std::atomic<int> ended{0};
    const auto is_in = [&](int i) { return ended == i; };
    ExpectShortened([&] {
      std::thread thread([&] {
        id = gettid();
        for (; ended < kRests; ++ended) rest();
      });
      for (int i = 0; i < kRests; ++i) {
        while (is_in(i) && !IsAsleep(id)) std::this_thread::yield();
        by();
        while (is_in(i)) std::this_thread::yield();
      }
      thread.join();
    });
  }
  void ExpectNapsPrevented() {
    ExpectShortened([this] {
      for (int i = 0; i < kRests; ++i) activity_.Nap(kFarTooLongNs);
    });
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
  ExpectNapsPrevented();
}

TEST_F(ApplicationActivityTest, ASleepEndsWhenOneMoreThreadSleeps) {
  activity_.SleepBegins();
  ExpectEnded([this] { activity_.Sleep(kFarTooLongNs, activity_.announced()); },
              [this] { SleepAndWakeUp(); });
}

TEST_F(ApplicationActivityTest, ASleepDoesNotBeginAfterOneMoreThreadHasAnnouncedOne) {
  ExpectShortened([this] {
    for (int i = 0; i < kRests; ++i) {
      const uint32_t announced = activity_.announced();
      SleepAndWakeUp();
      activity_.Sleep(kFarTooLongNs, announced);
    }
  });
}

TEST_F(ApplicationActivityTest, ASleepIsExpectedFromHandOverUntilAPoll) {
  ExpectNapEnded([this] {
    activity_.HandOver();
    activity_.Polled(1);
  });
  EXPECT_FALSE(activity_.ExpectsSleep());
  activity_.HandOver();
  EXPECT_TRUE(activity_.ExpectsSleep());
  ExpectNapsPrevented();
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
