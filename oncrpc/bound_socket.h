// A socket of the kernel's at every address of this host.
#ifndef POLLUX_ONCRPC_BOUND_SOCKET_H_
#define POLLUX_ONCRPC_BOUND_SOCKET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "stack/base/fd.h"

namespace pollux::oncrpc {

// Both IP versions by one socket, or IPv4 alone where the host has no IPv6. `type`: SOCK_STREAM or
// SOCK_DGRAM, which is then non-blocking; port 0: any. AlreadyExists when the port is taken.
absl::StatusOr<Fd> BindEverywhere(int type, uint16_t port);
uint16_t PortOf(const Fd& socket);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_BOUND_SOCKET_H_
