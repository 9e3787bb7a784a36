#include "stack/io/port/interrupt_thread.h"

#include <gtest/gtest.h>
#include <rte_interrupts.h>

#include <atomic>
#include <thread>
#include <vector>

#include "stack/io/eal_for_test.h"

namespace pollux::io {
namespace {

TEST(InterruptThread, RunsFunctionsOneAtATimeOnTheInterruptThread) {
  InitEalForTest();
  EXPECT_EQ(rte_thread_is_intr(), 0);
  constexpr int kThreads = 4, kEach = 100;
  int runs = 0, elsewhere = 0;  // by one thread only
  std::atomic<bool> running = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) {
        RunOnInterruptThread([&] {
          EXPECT_FALSE(running.exchange(true));
          ++runs;
          if (rte_thread_is_intr() == 0) ++elsewhere;
          running = false;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, kThreads * kEach);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace pollux::io
