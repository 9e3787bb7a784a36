#include "stack/engine/polling/ownership.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "stack/base/eventually_for_test.h"

namespace pollux::engine {
namespace {

TEST(Ownership, OnlyOneThreadOwnsIt) {
  Ownership ownership;
  ownership.Acquire();
  EXPECT_FALSE(ownership.TryAcquire());
  ownership.Release();
  ASSERT_TRUE(ownership.TryAcquire());
  ownership.Release();
}

TEST(Ownership, AnOwnerSeesTheWritesOfThePreviousOwner) {
  Ownership ownership;
  constexpr int kThreads = 4, kTurns = 20000;
  int plain = 0;  // a race for TSan, if the hand-over were one
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, tries = i % 2 == 0] {
      for (int turn = 0; turn < kTurns; ++turn) {
        if (!tries) {
          ownership.Acquire();
        } else {
          while (!ownership.TryAcquire()) std::this_thread::yield();
        }
        ++plain;
        ownership.Release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain, kThreads * kTurns);
  EXPECT_FALSE(ownership.Wanted());
}

TEST(Ownership, TheOwnerHasTheGivenLcoreId) {
  Ownership ownership(3);
  std::thread([&] {
    const unsigned own = rte_lcore_id();
    EXPECT_NE(own, 3u);
    ownership.Acquire();
    EXPECT_EQ(rte_lcore_id(), 3u);
    ownership.Release();
    EXPECT_EQ(rte_lcore_id(), own);
  }).join();
}

TEST(Ownership, HeldByThisThreadIsTrueOnlyInTheOwner) {
  Ownership ownership;
  EXPECT_FALSE(ownership.HeldByThisThread());
  ownership.Acquire();
  EXPECT_TRUE(ownership.HeldByThisThread());
  std::thread([&] { EXPECT_FALSE(ownership.HeldByThisThread()); }).join();
  ownership.Release();
  EXPECT_FALSE(ownership.HeldByThisThread());
}

// How often the thread has given up its CPU to sleep.
uint64_t SleepsOf(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  const std::string name = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size()));
  }
  return 0;
}

// One of a real-time class that shares the owner's CPU only yields to its like.
TEST(Ownership, ALongWaitingThreadSleeps) {
  Ownership ownership;
  ownership.Acquire();
  std::atomic<pid_t> id = 0;
  std::thread waiter([&] {
    id = gettid();
    ownership.Acquire();
    ownership.Release();
  });
  while (!ownership.Wanted()) std::this_thread::yield();
  const uint64_t before = SleepsOf(id);
  EXPECT_TRUE(Eventually([&] { return SleepsOf(id) >= before + 3; }));
  ownership.Release();
  waiter.join();
}

TEST(Ownership, WantedIsTrueWhileAThreadWaits) {
  Ownership ownership;
  ownership.Acquire();
  std::thread waiter([&] {
    ownership.Acquire();
    ownership.Release();
  });
  while (!ownership.Wanted()) std::this_thread::yield();
  ownership.Release();
  waiter.join();
  EXPECT_FALSE(ownership.Wanted());
}

}  // namespace
}  // namespace pollux::engine
