// Creates, tests and cleans up the directory of DPDK's telemetry sockets, since EAL refuses to
// start if it cannot create that directory itself.
#ifndef POLLUX_STACK_ENGINE_RUNTIME_DIRECTORY_H_
#define POLLUX_STACK_ENGINE_RUNTIME_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pollux::engine {

// The name of the socket in each process's directory, as chosen by DPDK. If several processes share
// a file prefix, ":1" and so on are appended.
inline constexpr char kTelemetrySocket[] = "dpdk_telemetry.v2";
inline constexpr char kFilePrefix[] = "pollux-";  // default: this and the process ID

// DPDK's directory: $RUNTIME_DIRECTORY if set; otherwise /var/run for root, and $XDG_RUNTIME_DIR or
// /tmp for other users; then "/dpdk". It holds one directory per file prefix.
std::string RuntimeDirectory();

// Returns PermissionDenied if the runtime directory is a symbolic link or another user may change
// it: any process could answer there.
absl::Status CheckRuntimeDirectory();

// Creates the directory of `file_prefix` and tests whether a socket can be created there. It is
// removed when the process ends, unless another process uses it. Errors name the step that failed
// and the path. Returns PermissionDenied if it or its parent is a symbolic link or another user may
// change it.
absl::Status MakeRuntimeDirectory(const std::string& file_prefix);

// Removes what killed processes have left: directories from MakeRuntimeDirectory() that are older
// than kStaleSeconds and in which no process listens. No process takes that long from creating its
// directory to listening.
inline constexpr int kStaleSeconds = 600;
void RemoveStaleDirectories();

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_RUNTIME_DIRECTORY_H_
