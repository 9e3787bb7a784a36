// Stream sockets of the kernel's, for what is asked by the way of the control path: rpcbind, MOUNT.
#ifndef POLLUX_ONCRPC_STREAM_SOCKET_H_
#define POLLUX_ONCRPC_STREAM_SOCKET_H_

#include <sys/socket.h>

#include "stack/base/socket_address.h"

namespace pollux::oncrpc {

// kReserved: below 1024 where this process may have one (servers take it for a sign that root
// asks); else any.
enum class SourcePort { kAny, kReserved };

// A connected socket, whose reads and writes wait `timeout_s` at most, as connecting did; -1 with
// errno. Blocks: not for a polled core.
int ConnectStream(const sockaddr* address, socklen_t length, int timeout_s, SourcePort source);
int ConnectTcp(const SocketAddress& server, int timeout_s, SourcePort source);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_STREAM_SOCKET_H_
