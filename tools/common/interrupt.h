// Signals that ask a command to end, as a flag that loops look at: nobody else would tell the peers
// of a stack in user space.
#ifndef POLLUX_TOOLS_COMMON_INTERRUPT_H_
#define POLLUX_TOOLS_COMMON_INTERRUPT_H_

namespace pollux::tools {

// What SIGPIPE does: a reader has closed the pipe that the output goes to.
enum class ClosedPipe { kInterrupts, kEnds };
// What SIGHUP does: a terminal is closed; or, of a service, an administrator wants it to reload.
enum class Hangup { kInterrupts, kReloads };
// From now on the first SIGINT, SIGTERM or SIGHUP only sets the flag, so that connections can be
// ended; another, RepeatedSignalFilter::kAtOnceMs after it or later, ends the process as usual.
// SIGHUP stays ignored where it is.
void CatchInterrupts(ClosedPipe closed_pipe = ClosedPipe::kInterrupts,
                     Hangup hangup = Hangup::kInterrupts);
bool Interrupted();
// Whether a SIGHUP that reloads has come since the last call.
bool TakeReload();
// Sleeps for at most `ms` milliseconds, less when interrupted.
void SleepUntilInterrupted(int ms);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_INTERRUPT_H_
