#include "tools/common/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>

#include "stack/base/repeated_signal_filter.h"

namespace pollux::tools {
namespace {

// Other threads than the one that the signal interrupts read it.
std::atomic<int> interrupted = 0;
static_assert(std::atomic<int>::is_always_lock_free);
volatile sig_atomic_t reload = 0;

RepeatedSignalFilter signal_filter;

int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1'000'000;
}

void OnSignal(int number) {
  const int error = errno;
  interrupted = 1;
  if (signal_filter.IsRepeated(NowMs())) {
    signal(number, SIG_DFL);
    raise(number);
  }
  errno = error;
}

void OnClosedPipe(int) { interrupted = 1; }

void OnReload(int) { reload = 1; }

// Unless the signal is ignored.
void Catch(int number, void (*handler)(int)) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

}  // namespace

void CatchInterrupts(ClosedPipe closed_pipe, Hangup hangup) {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // nohup(1) has it ignored.
  Catch(SIGHUP, hangup == Hangup::kReloads ? OnReload : OnSignal);
  // More is written on the way to the end. systemd starts services with it ignored: they keep
  // running when nobody reads their log.
  if (closed_pipe == ClosedPipe::kInterrupts) Catch(SIGPIPE, OnClosedPipe);
}

bool Interrupted() { return interrupted != 0; }

bool TakeReload() {
  const bool came = reload != 0;
  if (came) reload = 0;
  return came;
}

void SleepUntilInterrupted(int ms) {
  if (!Interrupted()) poll(nullptr, 0, ms);
}

}  // namespace pollux::tools
