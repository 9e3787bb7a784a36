#include "compat/process/fork_gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "stack/base/eventually_for_test.h"

namespace pollux::compat {
namespace {

constexpr uint64_t kLongNs = 60'000'000'000;
constexpr unsigned kForkTimeoutS = 60;

TEST(ForkGate, NoMutexIsHeldWhileTheGateIsClosed) {
  GatedMutex mutex;
  int first = 0, second = 0;
  std::atomic<bool> enough{false};
  std::thread changer([&] {
    while (!enough) {
      const std::lock_guard lock(mutex);
      ++first;
      std::this_thread::yield();
      ++second;
    }
  });
  for (int i = 0; i < 1000; ++i) {
    ForkGate::Close(kLongNs);
    EXPECT_EQ(first, second);
    ForkGate::OpenInParent();
  }
  enough = true;
  changer.join();
}

TEST(ForkGate, AThreadInsideTheGateIsNotBlocked) {
  GatedMutex outer, inner;
  std::atomic<bool> within{false}, closed{false}, has_gone_on{false}, enough{false};
  std::thread holder([&] {
    const std::lock_guard lock(outer);
    within = true;
    while (!closed) std::this_thread::yield();
    inner.lock();
    inner.unlock();
    has_gone_on = true;
    while (!enough) std::this_thread::yield();
  });
  while (!within) std::this_thread::yield();
  ForkGate::Close(1);  // returns though somebody is within
  closed = true;
  EXPECT_TRUE(Eventually([&] { return has_gone_on.load(); }))
      << "it waits for the gate that waits for it";
  enough = true;
  if (has_gone_on) ForkGate::Close(kLongNs);
  ForkGate::OpenInParent();
  holder.join();
}

TEST(ForkGate, CloseGivesUpOnAThreadThatStaysInside) {
  GatedMutex mutex;
  std::atomic<bool> within{false}, enough{false};
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    within = true;
    while (!enough) std::this_thread::yield();
  });
  while (!within) std::this_thread::yield();
  ForkGate::Close(1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(kForkTimeoutS);
    ForkGate::OpenInChild();
    GatedMutex other;
    const std::lock_guard lock(other);
    ForkGate::Close(kLongNs);
    _exit(0);
  }
  ForkGate::OpenInParent();
  enough = true;
  holder.join();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace pollux::compat
