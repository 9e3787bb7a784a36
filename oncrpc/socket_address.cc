#include "oncrpc/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <atomic>
#include <cstring>

namespace pollux::oncrpc {
namespace {

std::atomic<uint32_t> link_local_interface{0};

template <class Address>
Sockaddr Stored(const Address& address) {
  Sockaddr stored;
  std::memcpy(&stored.storage, &address, sizeof address);
  stored.length = sizeof address;
  return stored;
}

}  // namespace

void SetLinkLocalInterface(uint32_t index) { link_local_interface = index; }

Sockaddr ToSockaddr(const SocketAddress& from) {
  if (from.address.IsIpv4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(from.port);
    address.sin_addr.s_addr = htonl(from.address.Ipv4());
    return Stored(address);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(from.port);
  std::memcpy(&address.sin6_addr, from.address.raw.data(), from.address.raw.size());
  if (from.address.IsLinkLocal()) address.sin6_scope_id = link_local_interface;
  return Stored(address);
}

SocketAddress FromSockaddr(const sockaddr* address, socklen_t length) {
  SocketAddress socket_address;
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    socket_address.address = Gid::FromIpv4(ntohl(in.sin_addr.s_addr));
    socket_address.port = ntohs(in.sin_port);
  } else if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in6;
    std::memcpy(&in6, address, sizeof in6);
    std::memcpy(socket_address.address.raw.data(), &in6.sin6_addr,
                socket_address.address.raw.size());
    socket_address.port = ntohs(in6.sin6_port);
  }
  return socket_address;
}

}  // namespace pollux::oncrpc
