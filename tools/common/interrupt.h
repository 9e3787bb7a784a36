// Makes signals that end a command only set a flag, which loops check: a user-space stack must
// disconnect its peers itself before the process ends.
#ifndef POLLUX_TOOLS_COMMON_INTERRUPT_H_
#define POLLUX_TOOLS_COMMON_INTERRUPT_H_

namespace pollux::tools {

// The effect of SIGPIPE: the reader of the output has closed the pipe.
enum class ClosedPipe { kInterrupts, kEnds };
// The effect of SIGHUP: the terminal was closed; or, for a service, an administrator requests a
// reload.
enum class Hangup { kInterrupts, kReloads };
// From now on the first SIGINT, SIGTERM or SIGHUP only sets the flag, so that connections can be
// ended. A further signal, RepeatedSignalFilter::kAtOnceMs or more after it, ends the process as
// usual. If SIGHUP or SIGPIPE is ignored, it remains so.
void CatchInterrupts(ClosedPipe closed_pipe = ClosedPipe::kInterrupts,
                     Hangup hangup = Hangup::kInterrupts);
bool Interrupted();
// Whether a SIGHUP that requests a reload has arrived since the last call.
bool TakeReload();
// Sleeps for at most `ms` milliseconds, less if interrupted.
void SleepUntilInterrupted(int ms);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_INTERRUPT_H_
