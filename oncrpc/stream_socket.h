// Kernel stream sockets for rpcbind and MOUNT, which are called on the control path.
#ifndef POLLUX_ONCRPC_STREAM_SOCKET_H_
#define POLLUX_ONCRPC_STREAM_SOCKET_H_

#include <sys/socket.h>

#include "stack/base/socket_address.h"

namespace pollux::oncrpc {

// kReserved: a port below 1024 if this process may use one (servers take it as a sign that the
// caller is root); otherwise any port.
enum class SourcePort { kAny, kReserved };

// Returns a connected socket, or -1 with errno. Connecting, reads and writes each wait for at most
// `timeout_s` seconds. `from`: the source address; the kernel chooses it if this is zero or no
// address of this host. Blocks, so it must not be used on a polled core.
int ConnectStream(const sockaddr* address, socklen_t length, int timeout_s, SourcePort source,
                  const Gid& from = {});
int ConnectTcp(const SocketAddress& server, int timeout_s, SourcePort source, const Gid& from = {});

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_STREAM_SOCKET_H_
