#include "compat/process/termination_signals.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "compat/process/own_thread.h"
#include "compat/process/program_threads_exit.h"
#include "stack/base/repeated_signal_filter.h"

namespace pollux::compat {
namespace {

constexpr int kSignals[] = {SIGHUP, SIGINT, SIGTERM};

// A thread that stops in a signal handler may hold what leaving needs (the heap's lock): it stays
// for longer than leaving takes where it does not, and no longer.
constexpr int kStepMs = 100, kSteps = 50;

constexpr int64_t kLookNs = 500'000'000;  // for threads of the program's

constexpr int kStatusOfSignals = 128;  // as shells report the end by a signal

pid_t process = 0;
bool (*interrupted_in_call)() = nullptr;
int64_t (*clock_ms)() = nullptr;
std::atomic<int> taken{0};
RepeatedSignalFilter signal_filter;
sem_t wakes;

// Whether a signal has come, before it is time to look for the program's threads.
bool AwaitSignal() {
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  constexpr int64_t kSecondNs = 1'000'000'000;
  until.tv_nsec += kLookNs;
  until.tv_sec += until.tv_nsec / kSecondNs;
  until.tv_nsec %= kSecondNs;
  while (sem_clockwait(&wakes, CLOCK_MONOTONIC, &until) != 0) {
    if (errno == ETIMEDOUT) return false;
  }
  return true;
}

[[noreturn]] void EndBy(int number) {
  signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(number);
  // The kernel drops a signal with the default action if this process is PID 1 of its namespace.
  _exit(kStatusOfSignals + number);
}

void OnSignal(int signal) {
  if (getpid() != process || signal_filter.IsRepeated(clock_ms())) EndBy(signal);
  const int error = errno;
  taken.store(signal, std::memory_order_relaxed);
  sem_post(&wakes);
  const bool goes_on = interrupted_in_call();
  for (int step = 0; !goes_on && step < kSteps; ++step) poll(nullptr, 0, kStepMs);
  if (!goes_on) EndBy(signal);
  errno = error;
}

// Users may lose patience with what the program does at its exit: this thread is the only one that
// can take a signal by now.
[[noreturn]] void ExitAsLastThread() {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int number : kSignals) {
    sigaddset(&ending, number);
    // Nobody is left whom OnSignal could wake.
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == OnSignal) {
      signal(number, SIG_DFL);
    }
  }
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
  std::exit(0);
}

void TakeOver(int signal) {
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0 ||
      before.sa_handler != SIG_DFL) {
    return;
  }
  struct sigaction action {};
  action.sa_handler = OnSignal;
  // SA_NODEFER: the second one, on the same thread.
  action.sa_flags = SA_RESTART | SA_NODEFER;
  sigaction(signal, &action, nullptr);
}

}  // namespace

int64_t MonotonicMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1'000'000;
}

void LeaveBeforeEndingSignals(std::function<void()> leave, bool (*in_call)(), int64_t (*now_ms)()) {
  process = getpid();
  interrupted_in_call = in_call;
  clock_ms = now_ms;
  sem_init(&wakes, 0, 0);
  StartWithoutSignals([leave = std::move(leave)] {
    for (bool alone = false; !AwaitSignal();) {
      const bool was_alone = std::exchange(alone, OnlyOurThreadsAreLeft());
      if (was_alone && alone) ExitAsLastThread();
    }
    leave();
    EndBy(taken.load(std::memory_order_relaxed));
  }).detach();
  for (const int signal : kSignals) TakeOver(signal);
}

}  // namespace pollux::compat
