#include "compat/rdmacm/cm_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

namespace pollux::compat {
namespace {

sockaddr_storage Ipv4(const char* text, uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, text, &in.sin_addr);
  sockaddr_storage storage{};
  std::memcpy(&storage, &in, sizeof in);
  return storage;
}

sockaddr_storage Ipv6(const char* text, uint16_t port) {
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  inet_pton(AF_INET6, text, &in6.sin6_addr);
  sockaddr_storage storage{};
  std::memcpy(&storage, &in6, sizeof in6);
  return storage;
}

const sockaddr* Plain(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr*>(&storage);
}

TEST(CmAddress, SockaddrsRoundTrip) {
  for (const sockaddr_storage& address :
       {Ipv4("192.0.2.1", 7174), Ipv6("2001:db8::7", 1), Ipv4("0.0.0.0", 9), Ipv6("::", 65535)}) {
    const std::optional<SocketAddress> endpoint = ToEndpoint(Plain(address));
    ASSERT_TRUE(endpoint.has_value());
    sockaddr_storage back;
    ToSockaddr(*endpoint, address.ss_family, /*scope_id=*/3, &back);
    EXPECT_EQ(std::memcmp(&back, &address, sizeof back), 0) << ToString(*endpoint);
  }
}

TEST(CmAddress, TheWildcardAddressIsZero) {
  EXPECT_TRUE(ToEndpoint(Plain(Ipv4("0.0.0.0", 1)))->address.IsZero());
  EXPECT_TRUE(ToEndpoint(Plain(Ipv6("::", 1)))->address.IsZero());
  EXPECT_FALSE(ToEndpoint(Plain(Ipv4("192.0.2.1", 1)))->address.IsZero());
}

TEST(CmAddress, OnlyLinkLocalAddressesHaveAScope) {
  for (const auto& [text, scope] : {std::pair("fe80::7", 3u), {"fd00::7", 0u}, {"::", 0u}}) {
    sockaddr_storage address = Ipv6(text, 1);
    auto& in6 = reinterpret_cast<sockaddr_in6&>(address);
    EXPECT_EQ(ScopeOf(Plain(address)), 0u) << text;
    in6.sin6_scope_id = 3;
    EXPECT_EQ(ScopeOf(Plain(address)), scope) << text;
    sockaddr_storage back;
    ToSockaddr(*ToEndpoint(Plain(address)), AF_INET6, 3, &back);
    EXPECT_EQ(reinterpret_cast<const sockaddr_in6&>(back).sin6_scope_id, scope) << text;
  }
  EXPECT_EQ(ScopeOf(nullptr), 0u);
  EXPECT_EQ(ScopeOf(Plain(Ipv4("169.254.1.1", 1))), 0u);
}

TEST(CmAddress, OtherFamiliesAreRefused) {
  EXPECT_FALSE(ToEndpoint(nullptr).has_value());
  constexpr sa_family_t kAfIb = 27;
  sockaddr_storage address{};
  for (const sa_family_t family : {sa_family_t{AF_UNIX}, sa_family_t{AF_UNSPEC}, kAfIb}) {
    address.ss_family = family;
    EXPECT_FALSE(ToEndpoint(Plain(address)).has_value()) << family;
    EXPECT_EQ(AddressLength(Plain(address)), 0u);
  }
}

}  // namespace
}  // namespace pollux::compat
