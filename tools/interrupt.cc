#include "tools/interrupt.h"

#include <poll.h>
#include <signal.h>

namespace pollux::tools {
namespace {

volatile sig_atomic_t interrupted = 0;

void OnSignal(int) { interrupted = 1; }

}  // namespace

void CatchInterrupts(ClosedPipe closed_pipe) {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that is closed; nohup(1) has it ignored.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  if (closed_pipe == ClosedPipe::kEnds) return;
  // Each time: more is written on the way to the end.
  action.sa_flags = 0;
  sigaction(SIGPIPE, &action, nullptr);
}

bool Interrupted() { return interrupted != 0; }

void SleepUntilInterrupted(int ms) {
  if (!Interrupted()) poll(nullptr, 0, ms);
}

}  // namespace pollux::tools
