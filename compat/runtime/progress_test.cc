#include "compat/runtime/progress.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "stack/engine/eal.h"
#include "stack/engine/loop/clock.h"

namespace pollux::compat {
namespace {

class ProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status started = engine::InitEal({.memory_mib = 64});
    ASSERT_TRUE(started.ok()) << started;
  }

  // Of a hundred rests that are all too long, by threads of the program that begin to sleep.
  static constexpr uint64_t kFarTooLongNs = 999'999'999;
  void ExpectEndedBySleepers(void (Activity::*rest)(uint64_t)) {
    std::atomic<bool> awake{false};
    std::thread rests([&] {
      for (int i = 0; i < 100; ++i) (activity_.*rest)(kFarTooLongNs);
      awake = true;
    });
    while (!awake) {
      activity_.SleepBegins();
      activity_.SleepEnds();
      std::this_thread::yield();
    }
    rests.join();
  }

  engine::Ownership ownership_;
  Activity activity_;
  std::atomic<uint64_t> turns_{0};
  std::atomic<bool> awaits_post_{false};
  std::function<Pace::Found(uint64_t, bool)> poll_ = [this](uint64_t, bool awaits_post) {
    EXPECT_FALSE(ownership_.TryAcquire()) << "polled by who is not the owner";
    awaits_post_ = awaits_post;
    ++turns_;
    return Pace::Found{};
  };
};

TEST_F(ProgressTest, DrivesWhatTheProgramAbandons) {
  Progress progress({}, &ownership_, &activity_, poll_);
  while (turns_ < 10) std::this_thread::yield();
  EXPECT_FALSE(awaits_post_);
}

TEST_F(ProgressTest, AnswersOfOneWhoHasJustCalledMayWaitForItsPost) {
  const engine::Clock clock;
  Progress progress({}, &ownership_, &activity_, poll_);
  while (!awaits_post_) {
    activity_.Drove(clock.NowNs());
    // For long enough to be served, and not to be elsewhere.
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * Pace::kAbandonedNs));
  }
}

TEST_F(ProgressTest, LeavesAPollingProgramItsPort) {
  const engine::Clock clock;
  activity_.Drove(clock.NowNs() + 3'600'000'000'000);
  Progress progress({}, &ownership_, &activity_, poll_);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(turns_, 0u);
}

TEST_F(ProgressTest, ServesSleepersOfAProgramThatHasJustPolled) {
  const engine::Clock clock;
  activity_.Drove(clock.NowNs() + 3'600'000'000'000);
  Progress progress({}, &ownership_, &activity_, poll_);
  activity_.Armed();
  while (turns_ < 10) std::this_thread::yield();
  for (uint32_t i = 0; i < Activity::kEmptyPollsOfSleeper; ++i) activity_.FoundNothing();
  EXPECT_FALSE(activity_.ExpectsSleep());
  const uint64_t before = turns_;
  activity_.SleepBegins();
  while (turns_ < before + 10) std::this_thread::yield();
  activity_.SleepEnds();
  EXPECT_FALSE(activity_.ExpectsSleep());
}

// Where the process may have it; else the usual one.
int NiceOfOneAhead() {
  int nice = 0;
  std::thread asks([&nice] {
    const int usual = getpriority(PRIO_PROCESS, 0);
    const int wanted = std::max(usual - 3, -20);
    nice = setpriority(PRIO_PROCESS, 0, wanted) == 0 ? wanted : usual;
  });
  asks.join();
  return nice;
}

TEST_F(ProgressTest, GoesAheadOfAProgramThatWaitsForItsMemoryAndNotForLong) {
  const engine::Clock clock;
  const int usual = getpriority(PRIO_PROCESS, 0);
  const int ahead = NiceOfOneAhead();
  if (ahead == usual) GTEST_SKIP() << "this process may not lower a nice value of " << usual;
  if (sched_getscheduler(0) != SCHED_OTHER) GTEST_SKIP() << "not of the class that has nice values";
  std::atomic<int> nice{usual};
  // A packet is there at the end of each nap.
  Progress progress({}, &ownership_, &activity_, [&nice, packet = false](uint64_t, bool) mutable {
    nice = getpriority(PRIO_PROCESS, 0);
    packet = !packet;
    return Pace::Found{packet, packet ? 1u : 0u};
  });
  do {
    activity_.Drove(clock.NowNs());
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * Pace::kAbandonedNs));
  } while (nice != ahead);
  while (nice != usual) std::this_thread::yield();
}

TEST_F(ProgressTest, StandsBackForAThreadThatWaits) {
  Progress progress({}, &ownership_, &activity_, poll_);
  for (int i = 0; i < 1000; ++i) {
    ownership_.Acquire();
    ownership_.Release();
  }
  progress.Stop();
  const uint64_t before = turns_;
  EXPECT_TRUE(ownership_.TryAcquire());
  ownership_.Release();
  EXPECT_EQ(turns_, before);
}

TEST_F(ProgressTest, ItsNapEndsWhenTheProgramIsAboutToSleep) {
  ExpectEndedBySleepers(&Activity::Nap);
  activity_.Armed();
  activity_.Nap(kFarTooLongNs);
}

TEST_F(ProgressTest, ItsSleepEndsWhenOneMoreThreadSleeps) {
  activity_.SleepBegins();
  ExpectEndedBySleepers(&Activity::Sleep);
}

}  // namespace
}  // namespace pollux::compat
