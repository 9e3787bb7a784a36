#include "tools/peer_address.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "stack/net/address.h"

namespace pollux::tools {

absl::StatusOr<Gid> ParsePeerAddress(absl::string_view text) {
  const size_t scope = text.find('%');
  absl::StatusOr<Gid> address = net::ParseAddress(text.substr(0, scope));
  if (!address.ok()) return address.status();
  if (scope != absl::string_view::npos && !address->IsLinkLocal()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "': only link-local addresses (fe80::...) have a scope"));
  }
  if (!net::IsOneHost(*address)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not the address of one host"));
  }
  return address;
}

}  // namespace pollux::tools
