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

TEST(SocketAddress, ATruncatedOrForeignSockaddrHasNoPort) {
  const Sockaddr address = ToSockaddr({.address = Gid::FromIpv4(1), .port = 2});
  EXPECT_EQ(FromSockaddr(address.get(), address.length - 1).port, 0);
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_EQ(FromSockaddr(&other, sizeof other).port, 0);
}

}  // namespace
}  // namespace pollux::oncrpc
