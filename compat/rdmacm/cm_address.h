// Socket addresses of librdmacm, and endpoints of Pollux.
#ifndef POLLUX_COMPAT_RDMACM_CM_ADDRESS_H_
#define POLLUX_COMPAT_RDMACM_CM_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "stack/base/socket_address.h"

namespace pollux::compat {

// AF_INET and AF_INET6; nothing for others (AF_IB) and null. The any address of either is all
// zeros.
std::optional<SocketAddress> ToEndpoint(const sockaddr* address);

// The link that a link-local address is on, by the index of the interface there; 0 when the address
// does not say, or is of another kind.
uint32_t ScopeOf(const sockaddr* address);

// An endpoint without an address becomes the any address of `family`. A link-local one is on the
// link `scope_id`.
void ToSockaddr(const SocketAddress& endpoint, sa_family_t family, uint32_t scope_id,
                sockaddr_storage* address);

// In bytes; 0 for families that are not served.
socklen_t AddressLength(const sockaddr* address);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RDMACM_CM_ADDRESS_H_
