#include "stack/wire/neighbour_discovery.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/multicast.h"
#include "stack/wire/test_frames.h"

namespace pollux::wire {
namespace {

constexpr MacAddress kMac{0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
constexpr Gid kTarget{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x22, 0xFF, 0xFE, 0x33, 0x44, 0x55}};

// The message under an IPv6 header from kTarget to all nodes.
template <class Message>
std::vector<uint8_t> Packet(const Message& message) {
  std::vector<uint8_t> bytes(kIpv6Bytes + SizeOf(message));
  EmitIpv6({.payload_length = static_cast<uint16_t>(SizeOf(message)),
            .next_header = kIpProtocolIcmpV6,
            .hop_limit = kNeighbourHopLimit,
            .source = kTarget,
            .destination = kAllNodesIpv6},
           bytes.data());
  EmitNeighbour(message, bytes.data(), bytes.data() + kIpv6Bytes);
  return bytes;
}

TEST(MulticastTest, GroupsAndMacsAreDerivedFromAddresses) {
  EXPECT_EQ(LinkLocalAddress(kMac), kTarget);
  Gid group = SolicitedNodeGroup(kTarget);
  EXPECT_EQ(group, (Gid{{0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0x33, 0x44, 0x55}}));
  EXPECT_EQ(MulticastMac(group), (MacAddress{0x33, 0x33, 0xFF, 0x33, 0x44, 0x55}));
  // The highest of the 24 bits is not carried.
  EXPECT_EQ(MulticastMac(Gid::FromIpv4(0xE0810203)), (MacAddress{1, 0, 0x5E, 1, 2, 3}));
  EXPECT_TRUE(group.IsMulticast());
  EXPECT_TRUE(Gid::FromIpv4(0xEFFFFFFF).IsMulticast());
  EXPECT_FALSE(Gid::FromIpv4(0xF0000000).IsMulticast());
  EXPECT_FALSE(Gid::FromIpv4(0xDFFFFFFF).IsMulticast());
  EXPECT_FALSE(kTarget.IsMulticast());
  EXPECT_TRUE(kTarget.IsLinkLocal());
  EXPECT_FALSE(group.IsLinkLocal());
}

TEST(NeighbourDiscoveryTest, ASolicitationHasTheExpectedBytes) {
  const NeighbourSolicitation message{.target = kTarget, .source_mac = kMac};
  const auto packet = Packet(message);
  const uint8_t* p = packet.data() + kIpv6Bytes;
  const size_t length = packet.size() - kIpv6Bytes;
  auto bytes = std::vector<uint8_t>(p, p + length);
  EXPECT_TRUE(Icmpv6ChecksumIsValid(packet.data(), p, length));
  bytes[2] = bytes[3] = 0;  // the checksum, judged above
  EXPECT_EQ(bytes, FromHex("8700000000000000fe80000000000000001122fffe3344550101021122334455"));
  EXPECT_EQ(ParseNeighbourSolicitation(p, length), message);
  EXPECT_FALSE(ParseNeighbourAdvertisement(p, length));
}

TEST(NeighbourDiscoveryTest, RoundTrips) {
  for (const bool flag : {false, true}) {
    const NeighbourAdvertisement message{.target = kTarget,
                                         .router = flag,
                                         .solicited = !flag,
                                         .overrides = flag,
                                         .target_mac = flag ? std::optional(kMac) : std::nullopt};
    const auto packet = Packet(message);
    EXPECT_EQ(packet.size(), kIpv6Bytes + (flag ? 32u : 24u));
    EXPECT_EQ(ParseNeighbourAdvertisement(packet.data() + kIpv6Bytes, packet.size() - kIpv6Bytes),
              message);
  }
  const NeighbourSolicitation probe{.target = kTarget, .source_mac = std::nullopt};
  const auto packet = Packet(probe);
  EXPECT_EQ(ParseNeighbourSolicitation(packet.data() + kIpv6Bytes, packet.size() - kIpv6Bytes),
            probe);
}

TEST(NeighbourDiscoveryTest, ChecksumCoversEveryByteAndTheAddresses) {
  auto packet = Packet(NeighbourSolicitation{.target = kTarget, .source_mac = kMac});
  for (size_t byte = ipv6::kSource; byte < packet.size(); ++byte) {
    packet[byte] ^= 0x20;
    EXPECT_FALSE(Icmpv6ChecksumIsValid(packet.data(), packet.data() + kIpv6Bytes,
                                       packet.size() - kIpv6Bytes))
        << byte;
    packet[byte] ^= 0x20;
  }
  EXPECT_FALSE(Icmpv6ChecksumIsValid(packet.data(), packet.data() + kIpv6Bytes, 3));
}

TEST(NeighbourDiscoveryTest, InvalidMessagesAreRefused) {
  const auto packet = Packet(NeighbourSolicitation{.target = kTarget, .source_mac = kMac});
  const std::vector<uint8_t> good(packet.begin() + kIpv6Bytes, packet.end());
  for (size_t length = 0; length < good.size(); ++length) {
    const auto parsed = ParseNeighbourSolicitation(good.data(), length);
    // Complete without its option, and nowhere in between.
    EXPECT_EQ(parsed.has_value(), length == kNeighbourMessageBytes) << length;
  }
  auto bad = good;
  bad[1] = 1;  // code
  EXPECT_FALSE(ParseNeighbourSolicitation(bad.data(), bad.size()));
  bad = good;
  bad[8] = 0xFF;  // a group
  EXPECT_FALSE(ParseNeighbourSolicitation(bad.data(), bad.size()));
  bad = good;
  bad[25] = 0;  // an option without length
  EXPECT_FALSE(ParseNeighbourSolicitation(bad.data(), bad.size()));
  bad[25] = 2;  // and one past the end
  EXPECT_FALSE(ParseNeighbourSolicitation(bad.data(), bad.size()));
  bad = good;
  bad[24] = 14;  // a nonce (RFC 3971) is no address, and no fault
  EXPECT_EQ(ParseNeighbourSolicitation(bad.data(), bad.size())->source_mac, std::nullopt);
}

TEST(Icmpv6Test, EchoRoundTripsAndCorruptionIsDetected) {
  std::vector<uint8_t> packet(kIpv6Bytes + kIcmpEchoBytes + 9, 0x5A);
  EmitIpv6({.source = kTarget, .destination = kTarget}, packet.data());
  uint8_t* const p = packet.data() + kIpv6Bytes;
  const size_t length = packet.size() - kIpv6Bytes;
  const IcmpEcho echo{kIcmpv6EchoRequest, 0x1234, 7};
  EmitIcmpv6Echo(echo, packet.data(), p, length);
  EXPECT_TRUE(Icmpv6ChecksumIsValid(packet.data(), p, length));
  EXPECT_EQ(ParseIcmpv6Echo(p, length), echo);
  EXPECT_EQ(packet.back(), 0x5A);
  EXPECT_FALSE(ParseIcmpv6Echo(p, kIcmpEchoBytes - 1));
  p[0] = kIcmpEchoRequest;  // IPv4's type
  EXPECT_FALSE(ParseIcmpv6Echo(p, length));
}

}  // namespace
}  // namespace pollux::wire
