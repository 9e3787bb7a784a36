// A small process that survives this one and sends its DREQs when it has died (supervisor_main.cc).
#ifndef POLLUX_COMPAT_PROCESS_SUPERVISOR_H_
#define POLLUX_COMPAT_PROCESS_SUPERVISOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "compat/process/descriptors.h"

namespace pollux::compat {

// Starts the executable `program`, which sends the DREQs in `file_fd` on the interface when this
// process has died. It is not a child of this process, so wait(2) and SIGCHLD do not report it, and
// it has its own session, so signals to this process's group or terminal do not reach it. Returns a
// descriptor. The supervisor detects by its closing that this process has died or called exec(3); a
// forked child must close it by LetGo(). Unavailable if it cannot be started, and if this process
// is PID 1 or a child subreaper (prctl(2)): the supervisor would become its child. Call it on a
// control thread.
absl::StatusOr<HeldDescriptor> StartSupervisor(const std::string& program, int file_fd,
                                               unsigned interface_index);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_SUPERVISOR_H_
