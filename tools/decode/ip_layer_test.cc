#include "tools/decode/ip_layer.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"

namespace pollux::decode {
namespace {

using Bytes = std::vector<uint8_t>;
using wire::kEtherTypeIpv4;
using wire::kEtherTypeIpv6;

constexpr uint8_t kHopByHop = 0, kUdp = 17, kRouting = 43, kFragment = 44, kOptions = 60;

Bytes Ipv4(uint8_t words, uint16_t fragment) {
  Bytes packet(size_t{4} * words + 8, 0);
  packet[0] = static_cast<uint8_t>(0x40 | words);
  packet[3] = static_cast<uint8_t>(packet.size());
  packet[6] = static_cast<uint8_t>(fragment >> 8);
  packet[7] = static_cast<uint8_t>(fragment);
  packet[9] = kUdp;
  packet[12] = 192;
  return packet;
}

// Extension headers of eight bytes each, UDP after them.
Bytes Ipv6(const Bytes& extensions, uint16_t place = 0) {
  Bytes packet(40, 0);
  packet[0] = 0x60;
  size_t next = 6;
  for (const uint8_t extension : extensions) {
    packet[next] = extension;
    next = packet.size();
    packet.resize(packet.size() + 8, 0);
    if (extension != kFragment) continue;
    packet[next + 2] = static_cast<uint8_t>(place >> 8);
    packet[next + 3] = static_cast<uint8_t>(place);
  }
  packet[next] = kUdp;
  packet.resize(packet.size() + 8);
  packet[5] = static_cast<uint8_t>(packet.size() - 40);
  return packet;
}

TEST(IpLayerTest, Ipv4ParsesWithAndWithoutOptions) {
  const auto plain = ParseIpLayer(kEtherTypeIpv4, Ipv4(5, 0x4000));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->protocol, kUdp);
  EXPECT_EQ(plain->header_bytes, 20u);
  EXPECT_EQ(plain->total_bytes, 28u);
  EXPECT_EQ(plain->source, "192.0.0.0");
  EXPECT_FALSE(plain->fragment);
  EXPECT_EQ(plain->between, "");
  const auto options = ParseIpLayer(kEtherTypeIpv4, Ipv4(7, 0));
  EXPECT_EQ(options->header_bytes, 28u);
  EXPECT_EQ(options->fixed_bytes, 20u);
  EXPECT_EQ(options->between, "IPv4 options");
  EXPECT_EQ(options->fields["options_bytes"], 8);
}

TEST(IpLayerTest, FragmentsHaveTheirOffset) {
  const auto first = ParseIpLayer(kEtherTypeIpv4, Ipv4(5, 0x2000));
  EXPECT_TRUE(first->fragment);
  EXPECT_FALSE(first->IsLaterFragment());
  const auto later = ParseIpLayer(kEtherTypeIpv4, Ipv4(5, 0x0002));
  EXPECT_TRUE(later->IsLaterFragment());
  EXPECT_EQ(ProtocolText(kEtherTypeIpv4, *later), "UDP fragment at byte 16");
  EXPECT_EQ(later->fields["fragment"]["more"], false);
  const auto six = ParseIpLayer(kEtherTypeIpv6, Ipv6({kHopByHop, kFragment}, 0x0011));
  EXPECT_TRUE(six->IsLaterFragment());
  EXPECT_TRUE(six->more_fragments);
  EXPECT_EQ(six->protocol, kUdp);
  EXPECT_EQ(ProtocolText(kEtherTypeIpv6, *six), "UDP fragment at byte 16");
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv6, Ipv6({kFragment}, 0))->fragment);
}

TEST(IpLayerTest, ExtensionHeadersAreSkipped) {
  const auto ip = ParseIpLayer(kEtherTypeIpv6, Ipv6({kHopByHop, kRouting, kOptions}));
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->protocol, kUdp);
  EXPECT_EQ(ip->header_bytes, 64u);
  EXPECT_EQ(ip->total_bytes, 72u);
  EXPECT_TRUE(ip->rerouted);
  EXPECT_EQ(ip->between, "IPv6 hop-by-hop options, routing, destination options");
}

TEST(IpLayerTest, ExtensionHeadersAreBounded) {
  EXPECT_EQ(ParseIpLayer(kEtherTypeIpv6, Ipv6(Bytes(kMaxExtensionHeaders, kOptions)))->protocol,
            kUdp);
  EXPECT_FALSE(
      ParseIpLayer(kEtherTypeIpv6, Ipv6(Bytes(kMaxExtensionHeaders + 1, kOptions)))->protocol);
}

TEST(IpLayerTest, TruncatedPacketsAreParsedToTheirEnd) {
  const Bytes six = Ipv6({kOptions});
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv6, {six.data(), 6})->protocol);
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv6, {six.data(), 41})->protocol);
  EXPECT_EQ(ParseIpLayer(kEtherTypeIpv6, {six.data(), 42})->protocol, kUdp);
  EXPECT_TRUE(ParseIpLayer(kEtherTypeIpv6, {six.data(), 39})->fields.is_null());
  const Bytes icmp = [] {
    Bytes packet = Ipv6({});
    packet[6] = wire::kIpProtocolIcmpV6;
    return packet;
  }();
  EXPECT_EQ(ProtocolText(kEtherTypeIpv6, *ParseIpLayer(kEtherTypeIpv6, {icmp.data(), 7})),
            "ICMPv6");
  const Bytes four = Ipv4(5, 0);
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv4, {four.data(), 9})->protocol);
  EXPECT_EQ(ParseIpLayer(kEtherTypeIpv4, {four.data(), 10})->protocol, kUdp);
}

TEST(IpLayerTest, InvalidIpHeadersAreNotParsed) {
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv4, {}));
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv4, Ipv6({})));
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv6, Ipv4(5, 0)));
  EXPECT_FALSE(ParseIpLayer(kEtherTypeIpv4, Ipv4(4, 0)));
  EXPECT_FALSE(ParseIpLayer(wire::kEtherTypeArp, Ipv4(5, 0)));
}

}  // namespace
}  // namespace pollux::decode
