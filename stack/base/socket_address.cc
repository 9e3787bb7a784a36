#include "stack/base/socket_address.h"

#include "absl/strings/str_cat.h"
#include "stack/base/address.h"

namespace pollux {

std::string ToString(const SocketAddress& address) {
  const std::string host = FormatAddress(address.address);
  if (address.address.IsIpv4()) return absl::StrCat(host, ":", address.port);
  return absl::StrCat("[", host, "]:", address.port);
}

}  // namespace pollux
