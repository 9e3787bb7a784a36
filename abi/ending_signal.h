// Signals by which users end programs.
#ifndef POLLUX_ABI_ENDING_SIGNAL_H_
#define POLLUX_ABI_ENDING_SIGNAL_H_

#include <functional>

namespace pollux::abi {

// Has `leave` called, on a thread of its own, before this process ends by SIGHUP, SIGINT or
// SIGTERM: a kernel would tell the peers of a process that is gone, here nobody else does. Only for
// those that are left to their default action now; who changes one later has it for himself. The
// thread that takes the signal stops there, as it would have, unless `in_call()` says in the
// handler that `leave` needs it to go on. A second signal of the kind ends the process at once. In
// processes that are forked from this one the signals do what they would have done. Once a process.
void LeaveBeforeEndingSignals(std::function<void()> leave, bool (*in_call)());

}  // namespace pollux::abi

#endif  // POLLUX_ABI_ENDING_SIGNAL_H_
