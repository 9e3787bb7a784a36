#include "compat/process/critical_section.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pollux::compat {
namespace {

constexpr unsigned kTimeoutS = 60;

TEST(CriticalSection, OnlyOneThreadEnters) {
  constexpr int kThreads = 4, kTimes = 20'000;
  CriticalSection section;
  int plain = 0;  // a race for TSan, if two were in it
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int time = 0; time < kTimes; ++time) {
        section.Enter();
        if (time % 1000 == 0) std::this_thread::yield();
        ++plain;
        section.Leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain, kThreads * kTimes);
}

TEST(CriticalSection, OnlyOneThreadEntersInAForkedChild) {
  constexpr useconds_t kLookUs = 1000;
  constexpr int kLooks = 200;  // so many that the waiting thread has slept
  CriticalSection section;
  section.Enter();
  section.Leave();
  for (const bool within : {false, true}) {  // as it forks
    if (within) section.Enter();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(kTimeoutS);
      if (!within) section.Enter();
      std::atomic<bool> entered = false;
      std::thread other([&] {
        section.Enter();
        entered = true;
        section.Leave();
      });
      for (int i = 0; i < kLooks && !entered; ++i) usleep(kLookUs);
      const bool too_early = entered;
      section.Leave();
      other.join();
      _exit(too_early ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << within;
    if (within) section.Leave();
  }
}

TEST(CriticalSection, AnyThreadMayLeave) {
  CriticalSection section;
  section.Leave();
  section.Enter();
  std::thread([&] {
    section.Leave();
    section.Enter();
    section.Leave();
  }).join();
  section.Enter();
  section.Leave();
}

}  // namespace
}  // namespace pollux::compat
