// Universal addresses: the form in which rpcbind and NFS write the address of a service over
// RPC-over-RDMA.
#ifndef POLLUX_ONCRPC_UNIVERSAL_ADDRESS_H_
#define POLLUX_ONCRPC_UNIVERSAL_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stack/base/socket_address.h"

namespace pollux::oncrpc {

// "rdma" for IPv4, "rdma6" for IPv6. RFC 5665 section 5.1
const char* Netid(const Gid& address);

// The address, then the port's two bytes in decimal: "192.0.2.1.78.65", "2001:db8::1.78.65".
// RFC 5665 sections 5.2.3.3 and 5.2.3.4
std::string UniversalAddress(const SocketAddress& endpoint);
// InvalidArgument if `text` is not a universal address.
absl::StatusOr<SocketAddress> ParseUniversalAddress(absl::string_view text);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_UNIVERSAL_ADDRESS_H_
