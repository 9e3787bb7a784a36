// Conversion between SocketAddress and the sockets API's sockaddr.
#ifndef POLLUX_ONCRPC_SOCKET_ADDRESS_H_
#define POLLUX_ONCRPC_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>

#include "stack/base/socket_address.h"

namespace pollux::oncrpc {

struct Sockaddr {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Sets the interface index (if_nametoindex(3)) that ToSockaddr() gives to link-local addresses, for
// the whole process. 0, the default: none, so that the kernel refuses to connect to such addresses.
// Any thread may call it.
void SetLinkLocalInterface(uint32_t index);

// AF_INET for an IPv4 address, otherwise AF_INET6. Only link-local addresses have a scope.
Sockaddr ToSockaddr(const SocketAddress& address);
// Returns all zeros for another address family, and if `length` is too short for the family.
SocketAddress FromSockaddr(const sockaddr* address, socklen_t length);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_SOCKET_ADDRESS_H_
