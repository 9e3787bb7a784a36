// Hosts as users write them: an address, or a name that the system's resolver knows.
#ifndef POLLUX_TOOLS_COMMON_PEER_ADDRESS_H_
#define POLLUX_TOOLS_COMMON_PEER_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/types.h"

namespace pollux::tools {

// Returns the addresses of a host, at least one, in the order in which to try them. `host` is
// "192.0.2.1", "2001:db8::1", or a name, for which the resolver may take seconds. InvalidArgument
// if it is neither; NotFound, with the resolver's reason, for a name without an address.
absl::StatusOr<std::vector<Gid>> ResolveHost(const std::string& host);

// Returns the unicast addresses of a peer, at least one. Accepts a link-local address with a scope,
// "fe80::1%eth0" (RFC 4007 section 11), and ignores the scope, because a port has only one link.
// Use Node::FirstReachable() to find an address to which the port has a route. Errors: those of
// ResolveHost(); InvalidArgument for a scope with an address that is not link-local, and if there
// is no unicast address.
absl::StatusOr<std::vector<Gid>> ResolvePeer(const std::string& text);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_PEER_ADDRESS_H_
