#include "stack/engine/polling/shared_poll.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/engine/loop/actor.h"
#include "stack/engine/polling/progress_thread.h"

namespace pollux::engine {
namespace {

// A actor that answers what it is asked as often as it is polled.
class SharedPollTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const absl::Status started = InitEal({.memory_mib = 64});
    ASSERT_TRUE(started.ok()) << started;
  }

  // The thread has taken its first turn when this returns.
  void StartThread() {
    auto thread = ProgressThread::Start({}, &shared_);
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
  SharedPoll shared_{[this](uint64_t) { return Poll(); }};
  std::unique_ptr<ProgressThread> thread_;
};

TEST_F(SharedPollTest, AWaitingThreadPolls) {
  shared_.Begin(rte_lcore_id());
  for (int i = 0; i < 1000; ++i) {
    bool answered = false;
    Actor::Post(actor_, [&answered] { answered = true; });
    EXPECT_TRUE(shared_.PollUntil([&answered] { return answered; }));
  }
  bool answered = false;
  Actor::Post(actor_, [&answered] { answered = true; });
  shared_.PollOnce();
  EXPECT_TRUE(answered);
}

TEST_F(SharedPollTest, AWaitingThreadPollsForALimitedTime) {
  shared_.Begin(rte_lcore_id());
  EXPECT_FALSE(shared_.PollUntil([] { return false; }));
  // With something done in every turn too.
  std::function<void()> again = [&] { Actor::Post(actor_, [&again] { again(); }); };
  again();
  EXPECT_FALSE(shared_.PollUntil([] { return false; }, 1'000'000));
  again = [] {};
  shared_.PollOnce();
}

TEST_F(SharedPollTest, OneThreadPollsForAll) {
  shared_.Begin(rte_lcore_id());
  bool inner_was_done = true;
  Actor::Post(actor_, [&] {
    std::thread([&] {
      inner_was_done = shared_.PollUntil([] { return false; });
      shared_.PollOnce();
    }).join();
  });
  const uint64_t before = turns_;
  shared_.PollUntil([&] { return turns_ == before + 1; });
  EXPECT_FALSE(inner_was_done);
  EXPECT_EQ(turns_, before + 1);
}

TEST_F(SharedPollTest, TheProgressThreadServesSleepersAndSilentPrograms) {
  StartThread();
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> answered{false};
    shared_.PollOnce();
    Actor::Post(actor_, [&answered] {
      answered = true;
      answered.notify_one();
    });
    const SharedPoll::Sleeper sleeper(&shared_);
    answered.wait(false);
  }
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> answered{false};
    shared_.PollOnce();
    Actor::Post(actor_, [&answered] { answered = true; });
    if (i % 2 == 0) shared_.HandOver();
    while (!answered) std::this_thread::yield();
  }
}

TEST_F(SharedPollTest, AWaitingThreadUsesTheMbufCacheOfTheProgressThread) {
  unsigned of_thread = 0, of_waiting = 1;
  StartThread();
  std::atomic<bool> answered{false};
  Actor::Post(actor_, [&] {
    of_thread = rte_lcore_id();
    answered = true;
  });
  while (!answered) std::this_thread::yield();
  thread_.reset();
  Actor::Post(actor_, [&] { of_waiting = rte_lcore_id(); });
  shared_.PollOnce();
  EXPECT_EQ(of_thread, of_waiting);
}

TEST_F(SharedPollTest, ManyThreadsCallAndSleepConcurrently) {
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
        if (shared_.PollUntil([&answered] { return answered->load(); })) continue;
        const SharedPoll::Sleeper sleeper(&shared_);
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
