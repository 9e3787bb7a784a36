// Where a file of an NFS server is, as people write it.
#ifndef POLLUX_TOOLS_NFS_URL_H_
#define POLLUX_TOOLS_NFS_URL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/socket_address.h"

namespace pollux::tools {

struct NfsUrl {
  std::vector<Gid> servers;  // the addresses of the one, as of ResolvePeer()
  uint16_t port = 0;
  std::string path;  // absolute, without "." and empty components, not ending in "/" but for "/"
};

// "nfs://HOST[:PORT]/path", an IPv6 address in brackets; the port is 20049 when there is none. In
// the path %20 and the like are the bytes that they stand for. RFC 3986 section 2.1. Looks a name
// up. InvalidArgument for what is none, and for ".." in the path; NotFound for a name that nobody
// knows.
absl::StatusOr<NfsUrl> ResolveNfsUrl(const std::string& text);

// "HOST[:PORT]", an IPv6 address in brackets when a port follows. Errors as of a URL.
absl::StatusOr<SocketAddress> ResolveHostPort(const std::string& text, uint16_t default_port);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_URL_H_
