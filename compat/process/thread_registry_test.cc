#include "compat/process/thread_registry.h"

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

TEST(ThreadRegistry, AreThereUntilTheyEnd) {
  constexpr int kThreads = 8;
  const uint64_t own = ThreadRegistry::Own();
  EXPECT_EQ(ThreadRegistry::Own(), own);
  EXPECT_FALSE(ThreadRegistry::Has(0));
  std::atomic<int> there = 0;
  std::atomic<bool> enough = false;
  std::vector<std::atomic<uint64_t>> numbers(kThreads);
  std::vector<std::thread> threads;
  for (std::atomic<uint64_t>& number : numbers) {
    threads.emplace_back([&] {
      number = ThreadRegistry::Own();
      ++there;
      while (!enough) std::this_thread::yield();
    });
  }
  while (there < kThreads) std::this_thread::yield();
  std::set<uint64_t> all = {own};
  for (const uint64_t number : numbers) {
    EXPECT_TRUE(ThreadRegistry::Has(number));
    all.insert(number);
  }
  EXPECT_EQ(all.size(), size_t{kThreads + 1});
  enough = true;
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t number : numbers) EXPECT_FALSE(ThreadRegistry::Has(number));
  EXPECT_TRUE(ThreadRegistry::Has(own));
}

// On the thread that asks, or that is about to be known.
TEST(ThreadRegistry, ASignalHandlerMayAsk) {
  constexpr int kThreads = 50, kSignals = 200;
  struct sigaction asks {};
  asks.sa_handler = [](int /*signal*/) { EXPECT_TRUE(ThreadRegistry::Has(ThreadRegistry::Own())); };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &asks, &before), 0);
  for (int i = 0; i < kThreads; ++i) {
    std::atomic<bool> there = false, enough = false;
    std::thread asked([&] {
      there = true;
      while (!enough) EXPECT_TRUE(ThreadRegistry::Has(ThreadRegistry::Own()));
    });
    while (!there) std::this_thread::yield();
    for (int j = 0; j < kSignals; ++j) pthread_kill(asked.native_handle(), SIGUSR1);
    enough = true;
    asked.join();
  }
  EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

// The kernel's do.
TEST(ThreadRegistry, NoNumberComesTwice) {
  std::set<uint64_t> all;
  for (int i = 0; i < 1000; ++i) {
    std::thread([&] { EXPECT_TRUE(all.insert(ThreadRegistry::Own()).second); }).join();
  }
}

TEST(ThreadRegistry, OneThatWasCancelledHasEnded) {
  std::atomic<uint64_t> number = 0;
  std::thread cancelled([&] {
    number = ThreadRegistry::Own();
    while (true) {
      pthread_testcancel();
      std::this_thread::yield();
    }
  });
  while (number == 0) std::this_thread::yield();
  ASSERT_EQ(pthread_cancel(cancelled.native_handle()), 0);
  cancelled.join();
  EXPECT_FALSE(ThreadRegistry::Has(number));
}

// What a program does as its threads end comes in any order.
TEST(ThreadRegistry, OneThatAsksAgainAsItEndsEndsAgain) {
  static std::atomic<uint64_t> last;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { last = ThreadRegistry::Own(); }), 0);
  uint64_t first = 0;
  std::thread([&] {
    first = ThreadRegistry::Own();
    EXPECT_EQ(pthread_setspecific(key, &first), 0);
  }).join();
  EXPECT_NE(last, first);
  EXPECT_FALSE(ThreadRegistry::Has(first));
  EXPECT_FALSE(ThreadRegistry::Has(last));
  EXPECT_EQ(pthread_key_delete(key), 0);
}

TEST(ThreadRegistry, InAChildThereIsWhoHasForkedAndWhatItMakes) {
  const uint64_t own = ThreadRegistry::Own();
  std::atomic<uint64_t> other = 0;
  std::atomic<bool> enough = false;
  std::thread stays([&] {
    other = ThreadRegistry::Own();
    while (!enough) std::this_thread::yield();
  });
  while (other == 0) std::this_thread::yield();
  EXPECT_EQ(StatusOfChild([&] {
              if (ThreadRegistry::Own() != own || !ThreadRegistry::Has(own)) return 1;
              if (ThreadRegistry::Has(other)) return 2;
              uint64_t made = 0;
              bool there = false;
              std::thread([&] {
                made = ThreadRegistry::Own();
                there = ThreadRegistry::Has(made) && ThreadRegistry::Has(own);
              }).join();
              if (made == own || made == other || !there) return 3;
              return ThreadRegistry::Has(made) ? 4 : 0;
            }),
            0);
  EXPECT_TRUE(ThreadRegistry::Has(other));
  enough = true;
  stays.join();
}

// Whatever the others are in the midst of.
TEST(ThreadRegistry, AChildComesToNoHarmFromThreadsThatComeAndGo) {
  std::atomic<bool> enough = false;
  std::thread maker([&] {
    while (!enough) std::thread([] { ThreadRegistry::Own(); }).join();
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(StatusOfChild([] { return ThreadRegistry::Has(ThreadRegistry::Own()) ? 0 : 1; }), 0);
  }
  enough = true;
  maker.join();
}

}  // namespace
}  // namespace pollux::compat
