// Conversion between the socket addresses of librdmacm and those of Pollux.
#ifndef POLLUX_COMPAT_RDMACM_CM_ADDRESS_H_
#define POLLUX_COMPAT_RDMACM_CM_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "stack/base/socket_address.h"

namespace pollux::compat {

// Converts AF_INET and AF_INET6 addresses; returns nothing for other families (AF_IB) and for null.
// The any address of both becomes all zeros.
std::optional<SocketAddress> ToEndpoint(const sockaddr* address);

// The scope ID (interface index) of a link-local address; 0 if the address has none or is not
// link-local.
uint32_t ScopeOf(const sockaddr* address);

// An address of all zeros becomes the any address of `family`. A link-local address gets
// `scope_id`.
void ToSockaddr(const SocketAddress& endpoint, sa_family_t family, uint32_t scope_id,
                sockaddr_storage* address);

// In bytes; 0 for families that are not supported.
socklen_t AddressLength(const sockaddr* address);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RDMACM_CM_ADDRESS_H_
