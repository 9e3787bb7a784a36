#include "oncrpc/socket_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace pollux::oncrpc {
namespace {

TEST(SocketAddress, Ipv4AddressesConvertToSockaddrAndBack) {
  const SocketAddress socket_address{.address = Gid::FromIpv4(0xC0000201), .port = 20049};
  const Sockaddr address = ToSockaddr(socket_address);
  ASSERT_EQ(address.length, sizeof(sockaddr_in));
  sockaddr_in in;
  std::memcpy(&in, address.get(), sizeof in);
  EXPECT_EQ(in.sin_family, AF_INET);
  EXPECT_EQ(ntohs(in.sin_port), 20049);
  EXPECT_STREQ(inet_ntoa(in.sin_addr), "192.0.2.1");
  const SocketAddress again = FromSockaddr(address.get(), address.length);
  EXPECT_EQ(again.address, socket_address.address);
  EXPECT_EQ(again.port, socket_address.port);
}

TEST(SocketAddress, Ipv6AddressesConvertToSockaddrAndBack) {
  SocketAddress socket_address{.address = {}, .port = 1};
  ASSERT_EQ(inet_pton(AF_INET6, "2001:db8::7", socket_address.address.raw.data()), 1);
  const Sockaddr address = ToSockaddr(socket_address);
  EXPECT_EQ(address.get()->sa_family, AF_INET6);
  const SocketAddress again = FromSockaddr(address.get(), address.length);
  EXPECT_EQ(again.address, socket_address.address);
  EXPECT_EQ(again.port, socket_address.port);
}

TEST(SocketAddress, LinkLocalAddressesHaveTheInterfaceAsTheirScope) {
  const auto scope_of = [](const char* text) {
    SocketAddress socket_address;
    EXPECT_EQ(inet_pton(AF_INET6, text, socket_address.address.raw.data()), 1);
    sockaddr_in6 in6;
    std::memcpy(&in6, ToSockaddr(socket_address).get(), sizeof in6);
    return in6.sin6_scope_id;
  };
  EXPECT_EQ(scope_of("fe80::7"), 0u);
  SetLinkLocalInterface(3);
  EXPECT_EQ(scope_of("fe80::7"), 3u);
  EXPECT_EQ(scope_of("2001:db8::7"), 0u);
  SetLinkLocalInterface(0);
}

TEST(SocketAddress, ATruncatedOrForeignSockaddrHasNoPort) {
  const Sockaddr address = ToSockaddr({.address = Gid::FromIpv4(1), .port = 2});
  EXPECT_EQ(FromSockaddr(address.get(), address.length - 1).port, 0);
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_EQ(FromSockaddr(&other, sizeof other).port, 0);
}

}  // namespace
}  // namespace pollux::oncrpc
