// Where DPDK's telemetry puts its sockets: made, tried and left clean, since EAL refuses to start
// where its own attempt fails.
#ifndef POLLUX_STACK_ENGINE_RUNTIME_DIRECTORY_H_
#define POLLUX_STACK_ENGINE_RUNTIME_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pollux::engine {

// The name of each process's socket in its directory, as DPDK chooses it; ":1" and so on follow
// where several processes share a file prefix.
inline constexpr char kTelemetrySocket[] = "dpdk_telemetry.v2";
inline constexpr char kFilePrefix[] = "pollux-";  // and the process ID, without a choice

// As DPDK's: $RUNTIME_DIRECTORY, or /var/run for root, $XDG_RUNTIME_DIR or /tmp for others; and
// "/dpdk". One directory a file prefix is in it.
std::string RuntimeDirectory();

// PermissionDenied when it is a symbolic link or another user may change it: what answers there may
// be anyone.
absl::Status CheckRuntimeDirectory();

// Makes the directory of `file_prefix` and tries whether a socket can stand there. It goes when the
// process ends, unless another uses it. Errors say what cannot be done where. PermissionDenied when
// it or the one above it is a symbolic link, or may be changed by another user.
absl::Status MakeRuntimeDirectory(const std::string& file_prefix);

// Removes what processes that were killed have left: directories that MakeRuntimeDirectory() has
// made, older than kStaleSeconds, in which nobody listens.
inline constexpr int kStaleSeconds = 600;  // no process takes so long from directory to socket
void RemoveStaleDirectories();

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_RUNTIME_DIRECTORY_H_
