// A peer's address as people type it.
#ifndef POLLUX_TOOLS_PEER_ADDRESS_H_
#define POLLUX_TOOLS_PEER_ADDRESS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stack/base/types.h"

namespace pollux::tools {

// "192.0.2.1", "2001:db8::1", and with a scope "fe80::1%eth0" (RFC 4007 section 11): a port has one
// link, which the scope can but name. InvalidArgument for what is no address, has a scope without
// being link-local, or cannot be one host's.
absl::StatusOr<Gid> ParsePeerAddress(absl::string_view text);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_PEER_ADDRESS_H_
