// An IP address and a port, for RDMA CM, TCP and UDP alike.
#ifndef POLLUX_STACK_BASE_SOCKET_ADDRESS_H_
#define POLLUX_STACK_BASE_SOCKET_ADDRESS_H_

#include <cstdint>
#include <string>

#include "stack/base/types.h"

namespace pollux {

// The contents of a sockaddr_in or sockaddr_in6.
struct SocketAddress {
  Gid address;
  uint16_t port = 0;
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

// Returns "192.0.2.1:20049" or "[2001:db8::1]:20049".
std::string ToString(const SocketAddress& address);

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_SOCKET_ADDRESS_H_
