// SIGINT and SIGTERM as a flag that loops look at.
#ifndef POLLUX_TOOLS_INTERRUPT_H_
#define POLLUX_TOOLS_INTERRUPT_H_

namespace pollux::tools {

// From now on the first SIGINT or SIGTERM only sets the flag, so that connections can be ended; the
// second ends the process as usual.
void CatchInterrupts();
bool Interrupted();
// Sleeps for at most `ms` milliseconds, less when interrupted.
void SleepUntilInterrupted(int ms);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_INTERRUPT_H_
