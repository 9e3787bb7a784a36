// Signals by which users end programs, and the end of a program's last thread.
#ifndef POLLUX_COMPAT_PROCESS_TERMINATION_SIGNALS_H_
#define POLLUX_COMPAT_PROCESS_TERMINATION_SIGNALS_H_

#include <cstdint>
#include <functional>

namespace pollux::compat {

// Milliseconds of a clock that only goes forward. Signal handlers may call it.
int64_t MonotonicMs();

// Has `leave` called, on a thread of its own, before this process ends by SIGHUP, SIGINT or
// SIGTERM: a kernel would tell the peers of a process that is gone, here nobody else does. Only for
// those that are left to their default action now; who changes one later has it for himself. The
// thread that takes the signal stops there, as it would have, unless `in_call()` says in the
// handler that `leave` needs it to go on. Another of them ends the process at once when it comes
// RepeatedSignalFilter::kAtOnceMs after the first or later. In processes that are forked from this
// one the signals do what they would have done. Once a process. `now_ms` tells the time in the
// handler; tests have a clock of their own.
//
// The same thread notices, within half a second, that main() has ended by pthread_exit(3) and the
// program's other threads have ended too (OnlyOurThreadsAreLeft()), and calls exit(0) as the last
// of them would have.
void LeaveBeforeEndingSignals(std::function<void()> leave, bool (*in_call)(),
                              int64_t (*now_ms)() = MonotonicMs);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_TERMINATION_SIGNALS_H_
