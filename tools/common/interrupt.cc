#include "tools/common/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

#include <cerrno>

#include "stack/base/repeated_signal_filter.h"

namespace pollux::tools {
namespace {

volatile sig_atomic_t interrupted = 0;
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

}  // namespace

void CatchInterrupts(ClosedPipe closed_pipe, Hangup hangup) {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // nohup(1) has it ignored.
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  if (hangup == Hangup::kReloads) action.sa_handler = OnReload;
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  if (closed_pipe == ClosedPipe::kEnds) return;
  // More is written on the way to the end.
  action.sa_handler = OnClosedPipe;
  sigaction(SIGPIPE, &action, nullptr);
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
