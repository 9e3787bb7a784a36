#include "oncrpc/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace pollux::oncrpc {
namespace {

template <class Address>
SocketAddress Stored(const Address& address) {
  SocketAddress stored;
  std::memcpy(&stored.storage, &address, sizeof address);
  stored.length = sizeof address;
  return stored;
}

}  // namespace

SocketAddress SocketAddressOf(const cm::Endpoint& endpoint) {
  if (endpoint.address.IsIpv4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    address.sin_addr.s_addr = htonl(endpoint.address.Ipv4());
    return Stored(address);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(endpoint.port);
  std::memcpy(&address.sin6_addr, endpoint.address.raw.data(), endpoint.address.raw.size());
  return Stored(address);
}

cm::Endpoint EndpointOf(const sockaddr* address, socklen_t length) {
  cm::Endpoint endpoint;
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    endpoint.address = Gid::FromIpv4(ntohl(in.sin_addr.s_addr));
    endpoint.port = ntohs(in.sin_port);
  } else if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in6;
    std::memcpy(&in6, address, sizeof in6);
    std::memcpy(endpoint.address.raw.data(), &in6.sin6_addr, endpoint.address.raw.size());
    endpoint.port = ntohs(in6.sin6_port);
  }
  return endpoint;
}

}  // namespace pollux::oncrpc
