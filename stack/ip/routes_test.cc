#include "stack/ip/routes.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::ip {
namespace {

constexpr uint32_t Ip(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}
Gid To(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return Gid::FromIpv4(Ip(a, b, c, d)); }

Gid Parsed6(const char* text) { return ParseAddress(text).value(); }
InterfaceAddress Own(const char* text) { return ParseInterfaceAddress(text).value(); }

Routes One(const char* own, const char* gateway = nullptr) {
  const std::vector<InterfaceAddress> addresses = {Own(own)};
  if (gateway == nullptr) return Routes(addresses, {});
  return Routes(addresses, DefaultRoutes(Parsed6(gateway), addresses));
}

TEST(Routes, OnLinkDestinationsAreDirectAndOthersUseTheGateway) {
  const Routes routes = One("10.1.2.3/24", "10.1.2.254");
  const Gid own = To(10, 1, 2, 3);
  EXPECT_EQ(*routes.Find(To(10, 1, 2, 9)), (Routes::Hop{To(10, 1, 2, 9), kNoVlan, own}));
  EXPECT_EQ(*routes.Find(To(10, 1, 3, 9)), (Routes::Hop{To(10, 1, 2, 254), kNoVlan, own}));
  EXPECT_EQ(*routes.Find(To(192, 168, 0, 1)), (Routes::Hop{To(10, 1, 2, 254), kNoVlan, own}));
}

// As an address that keepalived moves between hosts: connections from it would end with the move.
TEST(Routes, TheSourceIsTheKernelsOrOfTheNextHopsLink) {
  const std::vector<InterfaceAddress> addresses = {Own("10.0.0.5/24"), Own("10.0.0.129/32"),
                                                   Own("192.168.50.5/24")};
  const Route on_link{
      .prefix = To(10, 0, 0, 0), .prefix_length = 24, .source = To(10, 0, 0, 5), .metric = 100};
  const Route beyond{.prefix = Gid::FromIpv4(0), .gateway = To(10, 0, 0, 1)};
  for (const Routes& routes : {Routes(addresses, {on_link, beyond}), Routes(addresses, {beyond})}) {
    EXPECT_EQ(routes.Find(To(10, 0, 0, 200))->source, To(10, 0, 0, 5));
    EXPECT_EQ(routes.Find(To(192, 168, 60, 9))->source, To(10, 0, 0, 5));
    EXPECT_EQ(routes.Find(To(192, 168, 50, 9))->source, To(192, 168, 50, 5));
  }
}

TEST(Routes, ALinkLocalGatewayIsOnTheVlanOfTheAddress) {
  const std::vector<InterfaceAddress> addresses = {Own("fe80::1/64"), Own("fe80::1/64,vlan=7"),
                                                   Own("2001:db8::1/64,vlan=7")};
  const Routes routes(addresses, DefaultRoutes(Parsed6("fe80::fe"), addresses));
  const Routes::Hop hop{Parsed6("fe80::fe"), 7, Parsed6("2001:db8::1")};
  EXPECT_EQ(*routes.Find(Parsed6("2001:db8:9::1")), hop);
  EXPECT_EQ(*routes.Find(Parsed6("2001:db8:9::1"), 7), hop);
}

TEST(Routes, WithoutAGatewayOffLinkDestinationsAreUnreachable) {
  const Routes routes = One("10.1.2.3/24");
  absl::Status status = routes.Find(To(10, 1, 3, 9)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "no route to 10.1.3.9: it is not on the link of 10.1.2.3/24 and no gateway is set");
  status = routes.Find(Parsed6("2001:db8::9")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no route to 2001:db8::9: this port has no IPv6 address");
}

TEST(Routes, RefusesAddressesThatAreNotUnicast) {
  const Routes routes = One("10.1.2.3/24", "10.1.2.254");
  for (const Gid& gid :
       {To(0, 0, 0, 0), To(0, 1, 2, 3), To(224, 0, 0, 1), To(240, 0, 0, 1), To(255, 255, 255, 255),
        To(10, 1, 2, 255), To(10, 1, 2, 3), Gid{}, Parsed6("ff02::1"), Parsed6("::1")}) {
    EXPECT_EQ(routes.Find(gid).status().code(), absl::StatusCode::kInvalidArgument)
        << FormatAddress(gid);
  }
}

TEST(Routes, NeighboursFollowPrefixesOfEveryLength) {
  EXPECT_TRUE(One("10.0.0.0/31").IsNeighbour(To(10, 0, 0, 1), kNoVlan));
  EXPECT_FALSE(One("10.0.0.1/30").IsNeighbour(To(10, 0, 0, 3), kNoVlan));
  EXPECT_FALSE(One("10.0.0.1/32").IsNeighbour(To(10, 0, 0, 2), kNoVlan));
  EXPECT_TRUE(One("10.0.0.1/32", "10.0.0.2").IsNeighbour(To(10, 0, 0, 2), kNoVlan));
  EXPECT_TRUE(One("10.0.0.1/0").IsNeighbour(To(99, 0, 0, 2), kNoVlan));
  EXPECT_FALSE(One("10.0.0.1/0").IsNeighbour(To(224, 0, 0, 2), kNoVlan));
  EXPECT_TRUE(One("2001:db8::1/127").IsNeighbour(Parsed6("2001:db8::"), kNoVlan));
  EXPECT_FALSE(One("2001:db8::1/128").IsNeighbour(Parsed6("2001:db8::"), kNoVlan));
  // The last address of an IPv6 prefix is a host like any other.
  EXPECT_TRUE(One("2001:db8::1/120").IsNeighbour(Parsed6("2001:db8::ff"), kNoVlan));
}

TEST(Routes, EachVlanIsASeparateLink) {
  const std::vector<InterfaceAddress> addresses = {Own("10.0.0.1/24"), Own("10.0.1.1/24,vlan=7"),
                                                   Own("fe80::1/64"), Own("fe80::1/64,vlan=7")};
  const Routes routes(addresses, DefaultRoutes(To(10, 0, 1, 254), addresses));
  EXPECT_EQ(*routes.Find(To(10, 0, 1, 9)), (Routes::Hop{To(10, 0, 1, 9), 7, To(10, 0, 1, 1)}));
  EXPECT_EQ(*routes.Find(To(9, 9, 9, 9)), (Routes::Hop{To(10, 0, 1, 254), 7, To(10, 0, 1, 1)}));
  EXPECT_FALSE(routes.IsNeighbour(To(10, 0, 1, 9), kNoVlan));
  EXPECT_TRUE(routes.IsNeighbour(To(10, 0, 1, 9), 7));
  // A link-local address says nothing of its link.
  EXPECT_EQ(routes.Find(Parsed6("fe80::2"))->vlan, kNoVlan);
  EXPECT_EQ(routes.Find(Parsed6("fe80::2"), 7)->vlan, 7);
  EXPECT_EQ(routes.Find(To(10, 0, 0, 9), 7)->address, To(10, 0, 1, 254));
}

TEST(Routes, ALinkLocalGatewayIsOnEachVlanWithAnAddressThatNeedsIt) {
  const std::vector<InterfaceAddress> addresses = {
      Own("fe80::1/64"), Own("2001:db8:7::1/64,vlan=7"), Own("2001:db8:7::2/64,vlan=7"),
      Own("2001:db8::1/64"), Own("10.0.0.1/24,vlan=9")};
  const Routes routes(addresses, DefaultRoutes(Parsed6("fe80::fe"), addresses));
  const Gid far = Parsed6("2001:db8:9::1");
  EXPECT_EQ(*routes.Find(far, 7), (Routes::Hop{Parsed6("fe80::fe"), 7, Parsed6("2001:db8:7::1")}));
  EXPECT_EQ(*routes.Find(far, kNoVlan),
            (Routes::Hop{Parsed6("fe80::fe"), kNoVlan, Parsed6("2001:db8::1")}));
  EXPECT_FALSE(routes.Find(far, 9).ok());
  EXPECT_EQ(*routes.Find(far), *routes.Find(far, 7));  // the first address's
}

TEST(Routes, TheSourceHasTheSameScopeAndTheLongestPrefix) {
  const std::vector<InterfaceAddress> addresses = {Own("fe80::1/64"), Own("2001:db8:1::1/64"),
                                                   Own("2001:db8:2::1/64"), Own("10.0.0.1/24"),
                                                   Own("10.0.0.2/24")};
  const Routes routes(addresses, DefaultRoutes(Parsed6("fe80::fe"), addresses));
  EXPECT_EQ(routes.Find(Parsed6("fe80::9"))->source, Parsed6("fe80::1"));
  EXPECT_EQ(routes.Find(Parsed6("2001:db8:2::9"))->source, Parsed6("2001:db8:2::1"));
  // Through a gateway that is link-local, but not from a link-local address.
  EXPECT_EQ(*routes.Find(Parsed6("2001:db8:1:9::9")),
            (Routes::Hop{Parsed6("fe80::fe"), kNoVlan, Parsed6("2001:db8:1::1")}));
  EXPECT_EQ(routes.Find(To(10, 0, 0, 9))->source, To(10, 0, 0, 1));
  EXPECT_EQ(routes.Source(Parsed6("2001:db8::1"), 9), std::nullopt);
}

TEST(Routes, ADeprecatedAddressIsNoSourceBesideAnother) {
  std::vector<InterfaceAddress> addresses = {Own("2001:db8::5/128"), Own("2001:db8::10/64")};
  addresses[0].deprecated = true;
  const std::vector<Route> defaults = DefaultRoutes(Parsed6("fe80::fe"), addresses);
  EXPECT_EQ(Routes(addresses, defaults).Find(Parsed6("2001:db8:9::1"))->source,
            Parsed6("2001:db8::10"));
  addresses.pop_back();
  EXPECT_EQ(Routes(addresses, defaults).Find(Parsed6("2001:db8:9::1"))->source,
            Parsed6("2001:db8::5"));
}

TEST(Routes, ARouteThatRefusesIsNoWay) {
  const std::vector<InterfaceAddress> addresses = {Own("10.0.0.1/24")};
  std::vector<Route> routes = DefaultRoutes(To(10, 0, 0, 254), addresses);
  routes.push_back({.prefix = To(10, 20, 0, 0), .prefix_length = 16, .refuses = true});
  const Routes table(addresses, routes);
  const absl::Status refused = table.Find(To(10, 20, 1, 1)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(refused.message(),
            "no route to 10.20.1.1: the route to 10.20.0.0/16 has the type unreachable, prohibit "
            "or blackhole");
  EXPECT_TRUE(table.Find(To(10, 21, 1, 1)).ok());
  EXPECT_FALSE(table.IsNeighbour(To(10, 20, 1, 1), kNoVlan));
}

TEST(Routes, TheRouteHasTheLongestPrefixAndThenTheLowestMetric) {
  const std::vector<InterfaceAddress> addresses = {Own("10.0.0.1/24")};
  const auto via = [](const char* prefix, uint8_t length, uint8_t gateway, uint32_t metric) {
    return Route{.prefix = Parsed6(prefix),
                 .prefix_length = length,
                 .gateway = To(10, 0, 0, gateway),
                 .metric = metric};
  };
  const Routes routes(addresses, {via("0.0.0.0", 0, 1 + 1, 0), via("172.16.0.0", 12, 3, 9),
                                  via("172.16.0.0", 12, 4, 8), via("172.16.5.0", 24, 5, 99)});
  EXPECT_EQ(routes.Find(To(8, 8, 8, 8))->address, To(10, 0, 0, 2));
  EXPECT_EQ(routes.Find(To(172, 16, 1, 1))->address, To(10, 0, 0, 4));
  EXPECT_EQ(routes.Find(To(172, 16, 5, 1))->address, To(10, 0, 0, 5));
}

}  // namespace
}  // namespace pollux::ip
