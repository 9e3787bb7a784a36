// Where a file of an NFS server is, as people write it.
#ifndef POLLUX_TOOLS_NFS_URL_H_
#define POLLUX_TOOLS_NFS_URL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cm/manager.h"

namespace pollux::tools {

struct NfsUrl {
  cm::Endpoint server;
  std::string path;  // absolute, without "." and empty components, not ending in "/" but for "/"
};

// "nfs://ADDR[:PORT]/path", an IPv6 address in brackets; the port is 20049 when there is none.
// InvalidArgument for what is none, and for ".." in the path.
absl::StatusOr<NfsUrl> ParseNfsUrl(const std::string& text);

// "ADDR[:PORT]", an IPv6 address in brackets when a port follows. InvalidArgument for what is none.
absl::StatusOr<cm::Endpoint> ParseHostPort(const std::string& text, uint16_t default_port);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_URL_H_
