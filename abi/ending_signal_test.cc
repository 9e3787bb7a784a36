#include "abi/ending_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace pollux::abi {
namespace {

// How processes end of which it is tested that they do not.
enum ExitCode : int { kWentOn = 3, kHandled = 4, kIgnored = 5, kChildLeft = 6, kChildEnded = 7 };

std::atomic<bool> in_call{false}, call_has_ended{false};

bool InCall() { return in_call; }
void Leave() { std::fputs("left\n", stderr); }

[[noreturn]] void StayForEver() {
  while (true) pause();
}

TEST(EndingSignalTest, LeavesAndEndsByTheSignal) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    const auto end = [signal] {
      LeaveBeforeEndingSignals(Leave, InCall);
      raise(signal);
      _exit(kWentOn);
    };
    EXPECT_EXIT(end(), testing::KilledBySignal(signal), "left");
  }
}

// The call is what leaving waits for.
TEST(EndingSignalTest, ACallIsCompleted) {
  const auto end = [] {
    LeaveBeforeEndingSignals(
        [] {
          while (!call_has_ended) std::this_thread::yield();
          Leave();
        },
        InCall);
    in_call = true;
    raise(SIGTERM);
    call_has_ended = true;
    StayForEver();
  };
  EXPECT_EXIT(end(), testing::KilledBySignal(SIGTERM), "left");
}

TEST(EndingSignalTest, ASecondSignalDoesNotWait) {
  const auto end = [] {
    LeaveBeforeEndingSignals(
        [] {
          kill(getpid(), SIGINT);
          StayForEver();
        },
        InCall);
    raise(SIGINT);
    _exit(kWentOn);
  };
  EXPECT_EXIT(end(), testing::KilledBySignal(SIGINT), "^$");
}

TEST(EndingSignalTest, WhatTheProgramHasSaidBeforeStands) {
  const auto ignore = [] {
    signal(SIGHUP, SIG_IGN);
    LeaveBeforeEndingSignals(Leave, InCall);
    raise(SIGHUP);
    _exit(kIgnored);
  };
  EXPECT_EXIT(ignore(), testing::ExitedWithCode(kIgnored), "^$");
  const auto handle = [] {
    signal(SIGINT, [](int) { _exit(kHandled); });
    LeaveBeforeEndingSignals(Leave, InCall);
    raise(SIGINT);
    _exit(kWentOn);
  };
  EXPECT_EXIT(handle(), testing::ExitedWithCode(kHandled), "^$");
}

TEST(EndingSignalTest, AChildEndsAtOnce) {
  const auto fork_and_end = [] {
    LeaveBeforeEndingSignals(Leave, InCall);
    const pid_t child = fork();
    if (child == 0) {
      raise(SIGTERM);
      _exit(kWentOn);
    }
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? kChildEnded : kChildLeft);
  };
  EXPECT_EXIT(fork_and_end(), testing::ExitedWithCode(kChildEnded), "^$");
}

}  // namespace
}  // namespace pollux::abi
