// Keeps DPDK's telemetry socket in place when forked children of the process exit.
#ifndef POLLUX_STACK_ENGINE_TELEMETRY_SOCKET_H_
#define POLLUX_STACK_ENGINE_TELEMETRY_SOCKET_H_

#include <string>

namespace pollux::engine {

// DPDK removes its socket in an exit(3) handler, which forked children inherit: a child that exits
// would remove its parent's socket. Handlers run in reverse order of registration, so the two that
// are registered here enclose DPDK's. In a child, the first one renames the socket and the last one
// restores its name; in between it cannot be found. Children that exit at the same time wait for
// each other. In the process that has registered the handlers they do nothing.
//
// InitEal() calls the first one before EAL starts, with its file prefix, and the second one after
// it has started.
void GuardTelemetrySocketFrom(const std::string& file_prefix);
void GuardTelemetrySocketTo();

// Removes what exit(3) would remove, for a process that ends by a signal. Has an effect only in the
// process that has registered the handlers. Does not allocate memory.
void RemoveTelemetrySocket();

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_TELEMETRY_SOCKET_H_
