#include "tools/interrupt.h"

#include <poll.h>
#include <signal.h>

namespace pollux::tools {
namespace {

volatile sig_atomic_t interrupted = 0;

void OnSignal(int) { interrupted = 1; }

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted != 0; }

void SleepUntilInterrupted(int ms) {
  if (!Interrupted()) poll(nullptr, 0, ms);
}

}  // namespace pollux::tools
