#include "tools/common/peer_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "oncrpc/socket_address.h"
#include "stack/base/address.h"

namespace pollux::tools {
namespace {

// What ends in a number is an address or a mistake in one (RFC 1123 section 2.1): nobody is asked
// for it.
bool IsName(absl::string_view host) {
  if (host.find(':') != absl::string_view::npos) return false;
  host = absl::StripSuffix(host, ".");
  const absl::string_view last = host.substr(host.rfind('.') + 1);
  return last.find_first_not_of("0123456789") != absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::vector<Gid>> ResolveHost(const std::string& host) {
  if (!IsName(host)) {
    const absl::StatusOr<Gid> address = pollux::ParseAddress(host);
    if (!address.ok()) return address.status();
    return std::vector<Gid>{*address};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;  // each address once
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat("host '", host, "': ", gai_strerror(error)));
  }
  std::vector<Gid> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    addresses.push_back(oncrpc::FromSockaddr(one->ai_addr, one->ai_addrlen).address);
  }
  freeaddrinfo(found);
  return addresses;
}

absl::StatusOr<std::vector<Gid>> ResolvePeer(const std::string& text) {
  const size_t scope = text.find('%');
  auto addresses = ResolveHost(text.substr(0, scope));
  if (!addresses.ok()) return addresses.status();
  if (scope != std::string::npos && !addresses->front().IsLinkLocal()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "': only link-local addresses (fe80::...) have a scope"));
  }
  const Gid first = addresses->front();
  std::erase_if(*addresses, [](const Gid& address) { return !IsOneHost(address); });
  if (!addresses->empty()) return addresses;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "': ", FormatAddress(first), " is not the address of one host"));
}

}  // namespace pollux::tools
