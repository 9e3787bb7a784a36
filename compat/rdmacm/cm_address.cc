#include "compat/rdmacm/cm_address.h"

#include <algorithm>
#include <cstring>

namespace pollux::compat {

std::optional<SocketAddress> ToEndpoint(const sockaddr* address) {
  SocketAddress endpoint;
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    if (in.sin_addr.s_addr != INADDR_ANY) {
      endpoint.address = Gid::FromIpv4(ntohl(in.sin_addr.s_addr));
    }
    endpoint.port = ntohs(in.sin_port);
    return endpoint;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 in6;
  std::memcpy(&in6, address, sizeof in6);
  std::copy_n(in6.sin6_addr.s6_addr, endpoint.address.raw.size(), endpoint.address.raw.begin());
  endpoint.port = ntohs(in6.sin6_port);
  return endpoint;
}

uint32_t ScopeOf(const sockaddr* address) {
  sockaddr_in6 in6{};
  if (address == nullptr || address->sa_family != AF_INET6) return 0;
  std::memcpy(&in6, address, sizeof in6);
  return IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) ? in6.sin6_scope_id : 0;
}

void ToSockaddr(const SocketAddress& endpoint, sa_family_t family, uint32_t scope_id,
                sockaddr_storage* address) {
  std::memset(address, 0, sizeof *address);
  const bool any = endpoint.address.IsZero();
  if (any ? family == AF_INET : endpoint.address.IsIpv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    in.sin_addr.s_addr = any ? INADDR_ANY : htonl(endpoint.address.Ipv4());
    std::memcpy(address, &in, sizeof in);
    return;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(endpoint.port);
  std::copy(endpoint.address.raw.begin(), endpoint.address.raw.end(), in6.sin6_addr.s6_addr);
  if (endpoint.address.IsLinkLocal()) in6.sin6_scope_id = scope_id;
  std::memcpy(address, &in6, sizeof in6);
}

socklen_t AddressLength(const sockaddr* address) {
  if (address->sa_family == AF_INET) return sizeof(sockaddr_in);
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

}  // namespace pollux::compat
