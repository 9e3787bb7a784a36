// Handles the signals by which users end programs, and the end of a program's last thread.
#ifndef POLLUX_COMPAT_PROCESS_TERMINATION_SIGNALS_H_
#define POLLUX_COMPAT_PROCESS_TERMINATION_SIGNALS_H_

#include <cstdint>
#include <functional>

namespace pollux::compat {

// The time of a monotonic clock in milliseconds. Async-signal-safe.
int64_t MonotonicMs();

// Arranges for `leave` to be called on a separate thread before this process ends by SIGHUP, SIGINT
// or SIGTERM. (With an adapter, the kernel disconnects the peers of a process that ends; here
// `leave` must do it.) Handles only the signals whose action is the default one now; a program that
// changes one later handles it itself. The thread that takes the signal stops in the handler, as
// the default action would stop it, unless `in_call()` returns true there because `leave` needs the
// thread to continue. A further signal that arrives at least RepeatedSignalFilter::kAtOnceMs after
// the first ends the process at once. PID 1 of a PID namespace, for which the kernel ignores
// signals with the default action, exits with the status 128 + signal instead. In forked children
// the signals have their default action. Call it once per process. `now_ms` returns the time in the
// handler; tests have their own clock.
//
// The same thread checks twice per second whether main() has ended by pthread_exit(3) and all other
// threads of the program have ended (OnlyOurThreadsAreLeft()). If so, it calls exit(0), as the end
// of the last thread would have done.
void LeaveBeforeEndingSignals(std::function<void()> leave, bool (*in_call)(),
                              int64_t (*now_ms)() = MonotonicMs);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_TERMINATION_SIGNALS_H_
