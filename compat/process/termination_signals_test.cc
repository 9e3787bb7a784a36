#include "compat/process/termination_signals.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "stack/base/repeated_signal_filter.h"

namespace pollux::compat {
namespace {

// How processes end of which it is tested that they do not.
enum ExitCode : int { kWentOn = 3, kHandled = 4, kIgnored = 5, kChildLeft = 6, kChildEnded = 7 };

constexpr int kMoreThanALookMs = 1500;

std::atomic<bool> in_call{false}, call_has_ended{false};

bool InCall() { return in_call; }
std::atomic<int> signals_taken{0};
bool TakeSignal() {
  ++signals_taken;
  return false;
}
void AwaitSignals(int count) {
  while (signals_taken < count) std::this_thread::yield();
}
// The time in tests of signals that come at once or far apart, however long the machine takes from
// one to the next.
std::atomic<int64_t> test_ms{0};
int64_t TestMs() { return test_ms; }
void Leave() { std::fputs("left\n", stderr); }

bool MayMakePidNamespaces() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWPID) == 0 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

[[noreturn]] void StayForEver() {
  while (true) pause();
}

// Of a process whose main thread has ended, whose stack with it: what the test framework holds
// there looks lost to LeakSanitizer.
bool main_thread_has_ended = false;

TEST(TerminationSignalsTest, DisconnectsAndDiesBySignal) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    const auto end = [signal] {
      LeaveBeforeEndingSignals(Leave, InCall);
      raise(signal);
      _exit(kWentOn);
    };
    EXPECT_EXIT(end(), testing::KilledBySignal(signal), "left");
  }
}

// As a program in a container, for which the kernel ignores signals with the default action.
TEST(TerminationSignalsTest, PidOneOfANamespaceExits) {
  if (!MayMakePidNamespaces()) GTEST_SKIP() << "needs the right to a PID namespace";
  const auto end = [] {
    if (unshare(CLONE_NEWPID) != 0) _exit(kWentOn);
    const pid_t first = fork();
    if (first == 0) {
      LeaveBeforeEndingSignals(Leave, InCall);
      raise(SIGTERM);
      _exit(kWentOn);
    }
    int status = 0;
    waitpid(first, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : kChildLeft);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(128 + SIGTERM), "left");
}

// The call is what leaving waits for.
TEST(TerminationSignalsTest, ACallInProgressIsCompleted) {
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

TEST(TerminationSignalsTest, ASecondRequestDoesNotWait) {
  for (const int second : {SIGINT, SIGTERM}) {
    const auto end = [second] {
      LeaveBeforeEndingSignals(
          [second] {
            test_ms += RepeatedSignalFilter::kAtOnceMs;
            kill(getpid(), second);
            StayForEver();
          },
          InCall, TestMs);
      raise(SIGINT);
      _exit(kWentOn);
    };
    EXPECT_EXIT(end(), testing::KilledBySignal(second), "^$");
  }
}

// timeout(1) sends its signal to the process and then to its group. The handler of the second one
// interrupts that of the first and does not return: the first must be counted before.
TEST(TerminationSignalsTest, TwoSignalsAtOnceAreOneRequest) {
  const auto end = [] {
    LeaveBeforeEndingSignals(
        [] {
          AwaitSignals(1);
          kill(getpid(), SIGINT);
          AwaitSignals(2);
          Leave();
        },
        TakeSignal, TestMs);
    raise(SIGINT);
    _exit(kWentOn);
  };
  EXPECT_EXIT(end(), testing::KilledBySignal(SIGINT), "^left\n$");
}

TEST(TerminationSignalsTest, EarlierSignalDispositionsOfTheProgramAreKept) {
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

// As a program of the kernel's verbs, which has no threads but its own.
TEST(TerminationSignalsTest, TheProcessEndsWithItsLastThread) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan has a thread of its own";
#endif
  const auto end = [] {
    std::atexit([] { std::fputs("exit\n", stderr); });
    LeaveBeforeEndingSignals(Leave, InCall);
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(kMoreThanALookMs));
      std::fputs("last thread\n", stderr);
    }).detach();
    main_thread_has_ended = true;
    pthread_exit(nullptr);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "^last thread\nexit\n$");
}

TEST(TerminationSignalsTest, AForkedChildDiesImmediately) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan does not deliver what the child of a process with threads sends to itself: "
                  "there it looks at no call that a handler could follow";
#endif
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
}  // namespace pollux::compat

// sanitizer/lsan_interface.h asks it at the end of a process.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return pollux::compat::main_thread_has_ended; }
