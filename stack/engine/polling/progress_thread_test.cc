#include "stack/engine/polling/progress_thread.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <sched.h>

#include <memory>

#include "stack/engine/eal.h"

namespace pollux::engine {
namespace {

class ProgressThreadTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(InitEal().ok()); }
};

int FirstCpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &set)) ++cpu;
  return cpu;
}

TEST_F(ProgressThreadTest, PollsWithItsOwnLcoreOnThePinnedCpu) {
  struct Seen {
    std::atomic<unsigned> polls{0};
    std::atomic<unsigned> lcore{LCORE_ID_ANY};
    std::atomic<int> cpu{-1};
    std::atomic<bool> backwards{false};
    uint64_t last_ns = 0;
  } seen;
  auto token = std::make_shared<int>();
  auto thread = ProgressThread::Start({.cpu = FirstCpu()}, [&seen, token](uint64_t now_ns) {
    if (now_ns < seen.last_ns) seen.backwards = true;
    seen.last_ns = now_ns;
    seen.lcore = rte_lcore_id();
    seen.cpu = sched_getcpu();
    ++seen.polls;
    return false;
  });
  ASSERT_TRUE(thread.ok()) << thread.status();
  while (seen.polls < 1000) sched_yield();
  (*thread)->Stop();
  const unsigned polls = seen.polls;
  EXPECT_NE(seen.lcore, LCORE_ID_ANY);
  EXPECT_NE(seen.lcore, rte_lcore_id());
  EXPECT_EQ(seen.cpu, FirstCpu());
  EXPECT_FALSE(seen.backwards);
  EXPECT_EQ(token.use_count(), 1);
  for (int i = 0; i < 10; ++i) sched_yield();
  EXPECT_EQ(seen.polls, polls);
}

TEST_F(ProgressThreadTest, ASpinningThreadCanBeStopped) {
  std::atomic<unsigned> polls{0};
  auto thread = ProgressThread::Start({.policy = {.idle = Idle::kSpin}}, [&](uint64_t) {
    ++polls;
    return false;
  });
  ASSERT_TRUE(thread.ok());
  while (polls < 10) sched_yield();
}

TEST_F(ProgressThreadTest, SleepsOnlyBetweenIdlePolls) {
  std::atomic<uint64_t> polls{0};
  std::atomic<bool> busy{true};
  ProgressThread::Options sleeping;
  sleeping.policy = {.idle = Idle::kSleep, .idle_turns = 10};
  sleeping.next_deadline_ns = [] { return UINT64_MAX; };
  auto thread = ProgressThread::Start(sleeping, [&](uint64_t) {
    ++polls;
    return busy.load();
  });
  ASSERT_TRUE(thread.ok());
  while (polls < 1000) sched_yield();
  EXPECT_EQ((*thread)->sleeps(), 0u);
  busy = false;
  while ((*thread)->sleeps() < 50) sched_yield();
  // In this order: it polls on in between.
  const uint64_t sleeps_before = (*thread)->sleeps(), polls_before = polls;
  while ((*thread)->sleeps() < sleeps_before + 50) sched_yield();
  (*thread)->Stop();
  // One poll a sleep, and one that may have come between the two looks.
  EXPECT_LE(polls - polls_before, (*thread)->sleeps() - sleeps_before + 1);
}

// A timer that is always due leaves no time to sleep.
TEST_F(ProgressThreadTest, DoesNotSleepWhenATimerIsDue) {
  std::atomic<uint64_t> polls{0};
  ProgressThread::Options sleeping;
  sleeping.policy = {.idle = Idle::kSleep, .idle_turns = 1};
  sleeping.next_deadline_ns = [] { return uint64_t{0}; };
  auto thread = ProgressThread::Start(sleeping, [&](uint64_t) {
    ++polls;
    return false;
  });
  ASSERT_TRUE(thread.ok());
  while (polls < 1000) sched_yield();
  EXPECT_EQ((*thread)->sleeps(), 0u);
}

TEST_F(ProgressThreadTest, TheErrorNamesACpuOutsideTheAffinity) {
  for (const int cpu : {-1, 1023, CPU_SETSIZE}) {
    const auto thread = ProgressThread::Start({.cpu = cpu}, [](uint64_t) { return false; });
    ASSERT_EQ(thread.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(thread.status().message().find(std::to_string(cpu)), std::string::npos);
  }
}

TEST_F(ProgressThreadTest, LcoreIdsAreReleased) {
  for (int i = 0; i < 2 * RTE_MAX_LCORE; ++i) {
    const auto thread = ProgressThread::Start({}, [](uint64_t) { return false; });
    ASSERT_TRUE(thread.ok()) << i << ": " << thread.status();
  }
}

}  // namespace
}  // namespace pollux::engine
