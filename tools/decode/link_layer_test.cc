#include "tools/decode/link_layer.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::decode {
namespace {

using Bytes = std::vector<uint8_t>;

// Ethernet with `tags` before an IPv4 packet.
Bytes Tagged(const std::vector<uint16_t>& tags) {
  Bytes frame = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  for (const uint16_t tag : tags) {
    frame.insert(frame.end(), {static_cast<uint8_t>(tag >> 8), static_cast<uint8_t>(tag), 0xA0,
                               static_cast<uint8_t>(frame.size())});
  }
  frame.insert(frame.end(), {0x08, 0x00, 0x45});
  return frame;
}

TEST(LinkLayerTest, EthernetHeadersParse) {
  const auto link = ParseLinkLayer(LinkType::kEthernet, Tagged({}));
  ASSERT_TRUE(link);
  EXPECT_EQ(link->name, "eth");
  EXPECT_EQ(link->source, "02:00:00:00:00:02");
  EXPECT_EQ(link->destination, "02:00:00:00:00:01");
  EXPECT_EQ(link->ether_type, 0x0800);
  EXPECT_EQ(link->bytes, 14u);
  EXPECT_FALSE(link->fields.contains("vlan"));
}

TEST(LinkLayerTest, OneTagAndStackedTagsParse) {
  const auto one = ParseLinkLayer(LinkType::kEthernet, Tagged({0x8100}));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->bytes, 18u);
  EXPECT_EQ(one->ether_type, 0x0800);
  EXPECT_EQ(one->fields["vlan"], 12);
  EXPECT_EQ(one->fields["priority"], 5);
  const auto two = ParseLinkLayer(LinkType::kEthernet, Tagged({0x88A8, 0x8100}));
  ASSERT_TRUE(two);
  EXPECT_EQ(two->bytes, 22u);
  EXPECT_EQ(two->ether_type, 0x0800);
  EXPECT_EQ(two->fields["tags"][0]["type"], "0x88a8");
  EXPECT_EQ(two->fields["tags"][1]["vlan"], 16);
}

TEST(LinkLayerTest, TagsAreBounded) {
  const std::vector<uint16_t> most(kMaxVlanTags, 0x8100);
  EXPECT_EQ(ParseLinkLayer(LinkType::kEthernet, Tagged(most))->ether_type, 0x0800);
  const std::vector<uint16_t> more(kMaxVlanTags + 1, 0x8100);
  EXPECT_EQ(ParseLinkLayer(LinkType::kEthernet, Tagged(more))->ether_type, 0x8100);
}

TEST(LinkLayerTest, LinuxCookedHeadersParse) {
  const Bytes sll = {0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 0x86, 0xDD, 0x60};
  const auto link = ParseLinkLayer(LinkType::kLinuxCooked, sll);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->name, "cooked");
  EXPECT_EQ(link->fields["packet_type"], "from us");
  EXPECT_EQ(link->source, "02:00:00:00:00:09");
  EXPECT_EQ(link->destination, "-");
  EXPECT_EQ(link->ether_type, 0x86DD);
  EXPECT_EQ(link->bytes, 16u);
}

TEST(LinkLayerTest, LinuxCookedVersion2HeadersParse) {
  const Bytes sll2 = {0x81, 0, 0, 0, 0, 0, 0, 7, 0, 1,    9,    6,
                      2,    0, 0, 0, 0, 9, 0, 0, 0, 0x64, 0x08, 0};
  const auto link = ParseLinkLayer(LinkType::kLinuxCooked2, sll2);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->fields["interface"], 7);
  EXPECT_EQ(link->fields["packet_type"], "unknown");
  EXPECT_EQ(link->fields["vlan"], 100);
  EXPECT_EQ(link->ether_type, 0x0800);
  EXPECT_EQ(link->bytes, 24u);
}

TEST(LinkLayerTest, WithoutAHeaderTheIpVersionGivesTheEtherType) {
  EXPECT_EQ(ParseLinkLayer(LinkType::kIp, Bytes{0x45})->ether_type, 0x0800);
  EXPECT_EQ(ParseLinkLayer(LinkType::kIp, Bytes{0x60})->ether_type, 0x86DD);
  EXPECT_EQ(ParseLinkLayer(LinkType::kIp, Bytes{0x10})->ether_type, 0);
  EXPECT_EQ(ParseLinkLayer(LinkType::kIp, Bytes{0x45})->bytes, 0u);
}

TEST(LinkLayerTest, ToEthernetConvertsOtherLinkTypes) {
  const Bytes expected = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x86, 0xDD, 0x60, 1};
  EXPECT_EQ(ToEthernet(LinkType::kIp, Bytes{0x60, 1}), expected);
  const Bytes sll = {0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 0x86, 0xDD, 0x60, 1};
  EXPECT_EQ(ToEthernet(LinkType::kLinuxCooked, sll), expected);
  EXPECT_TRUE(ToEthernet(LinkType::kLinuxCooked, {sll.data(), 15}).empty());
}

TEST(LinkLayerTest, TruncatedHeadersAreRejected) {
  const Bytes tagged = Tagged({0x88A8, 0x8100});
  for (size_t length = 0; length < 22; ++length) {
    EXPECT_FALSE(ParseLinkLayer(LinkType::kEthernet, {tagged.data(), length})) << length;
  }
  EXPECT_FALSE(ParseLinkLayer(LinkType::kLinuxCooked, {tagged.data(), 15}));
  EXPECT_FALSE(ParseLinkLayer(LinkType::kLinuxCooked2, {tagged.data(), 19}));
  EXPECT_FALSE(ParseLinkLayer(LinkType::kIp, {}));
}

}  // namespace
}  // namespace pollux::decode
