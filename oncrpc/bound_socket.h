// Kernel sockets bound to every address of this host.
#ifndef POLLUX_ONCRPC_BOUND_SOCKET_H_
#define POLLUX_ONCRPC_BOUND_SOCKET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "stack/base/fd.h"

namespace pollux::oncrpc {

// Returns a non-blocking socket for both IP versions, or for IPv4 alone if the host has no IPv6.
// `type`: SOCK_STREAM or SOCK_DGRAM. Port 0 stands for any free port. AlreadyExists if the port is
// in use.
absl::StatusOr<Fd> BindEverywhere(int type, uint16_t port);
uint16_t PortOf(const Fd& socket);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_BOUND_SOCKET_H_
