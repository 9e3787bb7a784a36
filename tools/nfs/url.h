// URLs of files on NFS servers.
#ifndef POLLUX_TOOLS_NFS_URL_H_
#define POLLUX_TOOLS_NFS_URL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/socket_address.h"

namespace pollux::tools {

struct NfsUrl {
  std::vector<Gid> servers;  // the addresses of the server, from ResolvePeer()
  uint16_t port = 0;
  std::string path;  // absolute, without "." and empty components; ends in "/" only if it is "/"
};

// Parses "nfs://HOST[:PORT]/path" with an IPv6 address in brackets; the default port is 20049. %20
// and other escapes in the path are decoded (RFC 3986 section 2.1). Resolves the host name.
// InvalidArgument for other text and for ".." in the path; NotFound for an unknown host name.
absl::StatusOr<NfsUrl> ResolveNfsUrl(const std::string& text);

// Parses "HOST[:PORT]"; an IPv6 address needs brackets if a port follows. Errors as
// ResolveNfsUrl().
absl::StatusOr<SocketAddress> ResolveHostPort(const std::string& text, uint16_t default_port);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_URL_H_
