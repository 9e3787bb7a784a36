// A small process that outlives this one and sends its DREQs when it has died (supervisor_main.cc).
#ifndef POLLUX_COMPAT_PROCESS_SUPERVISOR_H_
#define POLLUX_COMPAT_PROCESS_SUPERVISOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "compat/process/descriptors.h"

namespace pollux::compat {

// Starts the file `program` for the DREQs in `file_fd`, to be sent on the interface. It is no child
// of this process, whose wait(2) and SIGCHLD do not know of it, and in a session of its own, which
// signals to this process's group or terminal do not reach. Returns the descriptor that is closed
// when the process has died or becomes another program; a forked child is to let go of it.
// Unavailable when it cannot be started. Control thread.
absl::StatusOr<HeldDescriptor> StartSupervisor(const std::string& program, int file_fd,
                                               unsigned interface_index);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_SUPERVISOR_H_
