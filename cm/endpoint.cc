#include <arpa/inet.h>

#include "absl/strings/str_cat.h"
#include "cm/manager.h"

namespace pollux::cm {

std::string ToString(const Endpoint& endpoint) {
  char text[INET6_ADDRSTRLEN] = "?";
  const auto& raw = endpoint.address.raw;
  if (endpoint.address.IsIpv4()) {
    inet_ntop(AF_INET, &raw[12], text, sizeof text);
    return absl::StrCat(text, ":", endpoint.port);
  }
  inet_ntop(AF_INET6, raw.data(), text, sizeof text);
  return absl::StrCat("[", text, "]:", endpoint.port);
}

}  // namespace pollux::cm
