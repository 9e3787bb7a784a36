// Endpoints as the sockets interface writes them.
#ifndef POLLUX_ONCRPC_SOCKET_ADDRESS_H_
#define POLLUX_ONCRPC_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include "cm/manager.h"

namespace pollux::oncrpc {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// AF_INET for IPv4, else AF_INET6.
SocketAddress SocketAddressOf(const cm::Endpoint& endpoint);
// All zeros for another family than these two, or an address too short for its own.
cm::Endpoint EndpointOf(const sockaddr* address, socklen_t length);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_SOCKET_ADDRESS_H_
