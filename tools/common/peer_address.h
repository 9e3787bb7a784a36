// Hosts as people type them: by an address, or by a name that the system's resolver knows.
#ifndef POLLUX_TOOLS_COMMON_PEER_ADDRESS_H_
#define POLLUX_TOOLS_COMMON_PEER_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/types.h"

namespace pollux::tools {

// The addresses of a host, at least one, that to be tried first in front: "192.0.2.1",
// "2001:db8::1", or a name, for which the resolver may take seconds. InvalidArgument for what is
// neither, NotFound for a name of which the resolver knows no address, with its reason.
absl::StatusOr<std::vector<Gid>> ResolveHost(const std::string& host);

// The addresses of a peer: those of a host that can be one host's, at least one, and with a scope
// "fe80::1%eth0" (RFC 4007 section 11): a port has one link, which the scope can but name. Which of
// them the port has a way to, the port knows (Node::FirstReachable). Errors: those of
// ResolveHost(), InvalidArgument for a scope without a link-local address, and when no address can
// be one host's.
absl::StatusOr<std::vector<Gid>> ResolvePeer(const std::string& text);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_PEER_ADDRESS_H_
