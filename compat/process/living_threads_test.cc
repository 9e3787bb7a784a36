#include "compat/process/living_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <set>
#include <thread>
#include <vector>

namespace pollux::compat {
namespace {

constexpr unsigned kThreadPatienceS = 60;

int StatusOfChild(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kThreadPatienceS);
    _exit(work());
  }
  int status = -1;
  return waitpid(child, &status, 0) == child ? status : -1;
}

TEST(LivingThreads, AreThereUntilTheyEnd) {
  constexpr int kThreads = 8;
  const uint64_t own = LivingThreads::Own();
  EXPECT_EQ(LivingThreads::Own(), own);
  EXPECT_FALSE(LivingThreads::Has(0));
  std::atomic<int> there = 0;
  std::atomic<bool> enough = false;
  std::vector<std::atomic<uint64_t>> numbers(kThreads);
  std::vector<std::thread> threads;
  for (std::atomic<uint64_t>& number : numbers) {
    threads.emplace_back([&] {
      number = LivingThreads::Own();
      ++there;
      while (!enough) std::this_thread::yield();
    });
  }
  while (there < kThreads) std::this_thread::yield();
  std::set<uint64_t> all = {own};
  for (const uint64_t number : numbers) {
    EXPECT_TRUE(LivingThreads::Has(number));
    all.insert(number);
  }
  EXPECT_EQ(all.size(), size_t{kThreads + 1});
  enough = true;
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t number : numbers) EXPECT_FALSE(LivingThreads::Has(number));
  EXPECT_TRUE(LivingThreads::Has(own));
}

// On the thread that asks, or that is about to be known.
TEST(LivingThreads, ASignalHandlerMayAsk) {
  constexpr int kThreads = 50, kSignals = 200;
  struct sigaction asks {};
  asks.sa_handler = [](int /*signal*/) { EXPECT_TRUE(LivingThreads::Has(LivingThreads::Own())); };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &asks, &before), 0);
  for (int i = 0; i < kThreads; ++i) {
    std::atomic<bool> there = false, enough = false;
    std::thread asked([&] {
      there = true;
      while (!enough) EXPECT_TRUE(LivingThreads::Has(LivingThreads::Own()));
    });
    while (!there) std::this_thread::yield();
    for (int j = 0; j < kSignals; ++j) pthread_kill(asked.native_handle(), SIGUSR1);
    enough = true;
    asked.join();
  }
  EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

// The kernel's do.
TEST(LivingThreads, NoNumberComesTwice) {
  std::set<uint64_t> all;
  for (int i = 0; i < 1000; ++i) {
    std::thread([&] { EXPECT_TRUE(all.insert(LivingThreads::Own()).second); }).join();
  }
}

TEST(LivingThreads, OneThatWasCancelledHasEnded) {
  std::atomic<uint64_t> number = 0;
  std::thread cancelled([&] {
    number = LivingThreads::Own();
    while (true) {
      pthread_testcancel();
      std::this_thread::yield();
    }
  });
  while (number == 0) std::this_thread::yield();
  ASSERT_EQ(pthread_cancel(cancelled.native_handle()), 0);
  cancelled.join();
  EXPECT_FALSE(LivingThreads::Has(number));
}

// What a program does as its threads end comes in any order.
TEST(LivingThreads, OneThatAsksAgainAsItEndsEndsAgain) {
  static std::atomic<uint64_t> last;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { last = LivingThreads::Own(); }), 0);
  uint64_t first = 0;
  std::thread([&] {
    first = LivingThreads::Own();
    EXPECT_EQ(pthread_setspecific(key, &first), 0);
  }).join();
  EXPECT_NE(last, first);
  EXPECT_FALSE(LivingThreads::Has(first));
  EXPECT_FALSE(LivingThreads::Has(last));
  EXPECT_EQ(pthread_key_delete(key), 0);
}

TEST(LivingThreads, InAChildThereIsWhoHasForkedAndWhatItMakes) {
  const uint64_t own = LivingThreads::Own();
  std::atomic<uint64_t> other = 0;
  std::atomic<bool> enough = false;
  std::thread stays([&] {
    other = LivingThreads::Own();
    while (!enough) std::this_thread::yield();
  });
  while (other == 0) std::this_thread::yield();
  EXPECT_EQ(StatusOfChild([&] {
              if (LivingThreads::Own() != own || !LivingThreads::Has(own)) return 1;
              if (LivingThreads::Has(other)) return 2;
              uint64_t made = 0;
              bool there = false;
              std::thread([&] {
                made = LivingThreads::Own();
                there = LivingThreads::Has(made) && LivingThreads::Has(own);
              }).join();
              if (made == own || made == other || !there) return 3;
              return LivingThreads::Has(made) ? 4 : 0;
            }),
            0);
  EXPECT_TRUE(LivingThreads::Has(other));
  enough = true;
  stays.join();
}

// Whatever the others are in the midst of.
TEST(LivingThreads, AChildComesToNoHarmFromThreadsThatComeAndGo) {
  std::atomic<bool> enough = false;
  std::thread maker([&] {
    while (!enough) std::thread([] { LivingThreads::Own(); }).join();
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(StatusOfChild([] { return LivingThreads::Has(LivingThreads::Own()) ? 0 : 1; }), 0);
  }
  enough = true;
  maker.join();
}

}  // namespace
}  // namespace pollux::compat
