#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "stack/engine/eal.h"
#include "stack/engine/polling/clock.h"
#include "stack/engine/polling/progress_thread.h"

namespace pollux::engine {
namespace {

using transport::AckPolicy;

// Beside a verbs program, whose calls poll too.
class ApplicationProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status started = InitEal({.memory_mib = 64});
    ASSERT_TRUE(started.ok()) << started;
  }

  Ownership ownership_;
  ApplicationActivity activity_;
  std::atomic<uint64_t> turns_{0};
  std::atomic<bool> holds_{false};

  ProgressThread::Found Turn(AckPolicy::Action acks) {
    EXPECT_FALSE(ownership_.TryAcquire()) << "polled by a thread that is not the owner";
    holds_ = acks == AckPolicy::kHold;
    ++turns_;
    return {};
  }
  std::unique_ptr<ProgressThread> Start(ProgressThread::Poll poll) {
    ProgressThread::Options options;
    options.policy.application = Application::kUnmodified;
    options.ownership = &ownership_;
    options.activity = &activity_;
    auto thread = ProgressThread::Start(options, std::move(poll));
    EXPECT_TRUE(thread.ok()) << thread.status();
    return *std::move(thread);
  }
  std::unique_ptr<ProgressThread> Start() {
    return Start([this](uint64_t, AckPolicy::Action acks) { return Turn(acks); });
  }
};

TEST_F(ApplicationProgressTest, PollsForAProgramThatDoesNotPoll) {
  const auto thread = Start();
  while (turns_ < 10) std::this_thread::yield();
  EXPECT_FALSE(holds_);
}

TEST_F(ApplicationProgressTest, HoldsAcksForAProgramThatHasJustPolled) {
  const Clock clock;
  const auto thread = Start();
  while (!holds_) {
    activity_.Polled(clock.NowNs());
    // For long enough to be served, and not to be elsewhere.
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * ProgressPolicy::kAbandonedNs));
  }
}

TEST_F(ApplicationProgressTest, DoesNotPollWhileTheProgramPolls) {
  const Clock clock;
  activity_.Polled(clock.NowNs() + 3'600'000'000'000);
  const auto thread = Start();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(turns_, 0u);
}

TEST_F(ApplicationProgressTest, ServesSleepersOfAProgramThatHasJustPolled) {
  const Clock clock;
  activity_.Polled(clock.NowNs() + 3'600'000'000'000);
  const auto thread = Start();
  activity_.Armed();
  while (turns_ < 10) std::this_thread::yield();
  for (uint32_t i = 0; i < ApplicationActivity::kEmptyPollsOfSleeper; ++i) activity_.FoundNothing();
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

TEST_F(ApplicationProgressTest, IsBoostedBrieflyAheadOfAProgramThatPollsItsMemory) {
  const Clock clock;
  const int usual = getpriority(PRIO_PROCESS, 0);
  const int ahead = NiceOfOneAhead();
  if (ahead == usual) GTEST_SKIP() << "this process may not lower a nice value of " << usual;
  if (sched_getscheduler(0) != SCHED_OTHER) GTEST_SKIP() << "not of the class that has nice values";
  std::atomic<int> nice{usual};
  // A packet is there at the end of each nap.
  const auto thread = Start([&nice, packet = false](uint64_t, AckPolicy::Action) mutable {
    nice = getpriority(PRIO_PROCESS, 0);
    packet = !packet;
    return ProgressThread::Found{packet, packet ? 1u : 0u};
  });
  do {
    activity_.Polled(clock.NowNs());
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * ProgressPolicy::kAbandonedNs));
  } while (nice != ahead);
  while (nice != usual) std::this_thread::yield();
}

TEST_F(ApplicationProgressTest, YieldsOwnershipToAWaitingThread) {
  const auto thread = Start();
  for (int i = 0; i < 1000; ++i) {
    ownership_.Acquire();
    ownership_.Release();
  }
  thread->Stop();
  const uint64_t before = turns_;
  EXPECT_TRUE(ownership_.TryAcquire());
  ownership_.Release();
  EXPECT_EQ(turns_, before);
}

}  // namespace
}  // namespace pollux::engine
