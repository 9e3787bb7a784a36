// The socket of DPDK's telemetry, which belongs to the process that has the port.
#ifndef POLLUX_COMPAT_RUNTIME_TELEMETRY_SOCKET_H_
#define POLLUX_COMPAT_RUNTIME_TELEMETRY_SOCKET_H_

#include <string>

namespace pollux::compat {

// DPDK removes its socket in a handler of exit(3), in every process that has inherited it: a child
// that was forked would take it from its parent. Handlers run in the reverse order of their
// registration, so the two that are registered here have DPDK's between them: in a child the first
// gives the socket a second name, and the last the one that it had; nobody finds it in between.
// Children that end together wait for each other there.
// They do nothing in the process that has registered them. From one thread; again, where EAL did
// not start.
//
// Before EAL starts, with its file prefix (engine::EalOptions), and after that.
void GuardTelemetrySocketFrom(const std::string& file_prefix);
void GuardTelemetrySocketTo();

// What an exit would remove, where a signal ends the process: in the process that has registered
// the handlers. Takes nothing from the heap.
void RemoveTelemetrySocket();

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_TELEMETRY_SOCKET_H_
