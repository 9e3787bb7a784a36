// Socket addresses as the sockets interface writes them.
#ifndef POLLUX_ONCRPC_SOCKET_ADDRESS_H_
#define POLLUX_ONCRPC_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include "stack/base/socket_address.h"

namespace pollux::oncrpc {

struct Sockaddr {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// AF_INET for IPv4, else AF_INET6.
Sockaddr ToSockaddr(const SocketAddress& address);
// All zeros for another family than these two, or an address too short for its own.
SocketAddress FromSockaddr(const sockaddr* address, socklen_t length);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_SOCKET_ADDRESS_H_
