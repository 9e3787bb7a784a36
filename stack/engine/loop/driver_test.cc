#include "stack/engine/loop/driver.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/engine/loop/actor.h"
#include "stack/engine/loop/thread.h"

namespace pollux::engine {
namespace {

// A actor that answers what it is asked as often as it is polled.
class DriverTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const absl::Status started = InitEal({.memory_mib = 64});
    ASSERT_TRUE(started.ok()) << started;
  }

  // The thread has taken its first turn when this returns.
  void StartThread() {
    auto thread =
        PollThread::Start({}, [this](uint64_t now_ns) { return driver_.TakeTurn(now_ns); });
    ASSERT_TRUE(thread.ok()) << thread.status();
    thread_ = *std::move(thread);
    while (turns_ == 0) std::this_thread::yield();
  }
  bool Poll() {
    EXPECT_FALSE(polled_.exchange(true)) << "two threads at once";
    ++turns_;
    ++plain_;
    const bool worked = actor_.RunMailbox() > 0;
    polled_ = false;
    return worked;
  }

  Actor actor_;
  std::atomic<bool> polled_{false};
  std::atomic<uint64_t> turns_{0};
  uint64_t plain_ = 0;  // a race for TSan, if the hand-over were one
  Driver driver_{[this](uint64_t) { return Poll(); }};
  std::unique_ptr<PollThread> thread_;
};

TEST_F(DriverTest, WhoWaitsDrives) {
  driver_.TakeTurn(0);
  for (int i = 0; i < 1000; ++i) {
    bool answered = false;
    Actor::Post(actor_, [&answered] { answered = true; });
    EXPECT_TRUE(driver_.DriveUntil([&answered] { return answered; }));
  }
  bool answered = false;
  Actor::Post(actor_, [&answered] { answered = true; });
  driver_.DriveOnce();
  EXPECT_TRUE(answered);
}

TEST_F(DriverTest, PatienceEnds) {
  driver_.TakeTurn(0);
  EXPECT_FALSE(driver_.DriveUntil([] { return false; }));
  // With something done in every turn too.
  std::function<void()> again = [&] { Actor::Post(actor_, [&again] { again(); }); };
  again();
  EXPECT_FALSE(driver_.DriveUntil([] { return false; }, 1'000'000));
  again = [] {};
  driver_.DriveOnce();
}

TEST_F(DriverTest, OneDrivesForAll) {
  driver_.TakeTurn(0);
  bool inner_drove = true;
  Actor::Post(actor_, [&] {
    std::thread([&] {
      inner_drove = driver_.DriveUntil([] { return false; });
      driver_.DriveOnce();
    }).join();
  });
  const uint64_t before = turns_;
  driver_.DriveUntil([&] { return turns_ == before + 1; });
  EXPECT_FALSE(inner_drove);
  EXPECT_EQ(turns_, before + 1);
}

TEST_F(DriverTest, TheThreadServesSleepersAndTheAbandoned) {
  StartThread();
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> answered{false};
    driver_.DriveOnce();
    Actor::Post(actor_, [&answered] {
      answered = true;
      answered.notify_one();
    });
    const Driver::Sleeper sleeper(&driver_);
    answered.wait(false);
  }
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> answered{false};
    driver_.DriveOnce();
    Actor::Post(actor_, [&answered] { answered = true; });
    if (i % 2 == 0) driver_.HandOver();
    while (!answered) std::this_thread::yield();
  }
}

TEST_F(DriverTest, WhoDrivesHasThePacketCachesOfTheThread) {
  unsigned of_thread = 0, of_driver = 1;
  StartThread();
  std::atomic<bool> answered{false};
  Actor::Post(actor_, [&] {
    of_thread = rte_lcore_id();
    answered = true;
  });
  while (!answered) std::this_thread::yield();
  thread_.reset();
  Actor::Post(actor_, [&] { of_driver = rte_lcore_id(); });
  driver_.DriveOnce();
  EXPECT_EQ(of_thread, of_driver);
}

TEST_F(DriverTest, AnyMixOfThreads) {
  constexpr int kThreads = 4, kCalls = 2000;
  StartThread();
  uint64_t answers = 0;  // the owner's
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        auto answered = std::make_shared<std::atomic<bool>>(false);
        Actor::Post(actor_, [&answers, answered] {
          ++answers;
          *answered = true;
          answered->notify_one();
        });
        if (driver_.DriveUntil([&answered] { return answered->load(); })) continue;
        const Driver::Sleeper sleeper(&driver_);
        answered->wait(false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  thread_.reset();
  EXPECT_EQ(answers, uint64_t{kThreads} * kCalls);
  EXPECT_EQ(plain_, turns_);
}

}  // namespace
}  // namespace pollux::engine
