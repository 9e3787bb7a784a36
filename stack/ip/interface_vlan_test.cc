// Addresses on VLANs: each is a link of its own.
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "stack/ip/interface_fixture.h"
#include "stack/wire/multicast.h"

namespace pollux::ip {
namespace {

const Gid kOurVlanLinkLocal = wire::LinkLocalAddress(kOurMac);
const Gid kPeerVlanLinkLocal = wire::LinkLocalAddress(kPeerMac);

class InterfaceVlanTest : public InterfaceHost {
 protected:
  InterfaceVlanTest()
      : InterfaceHost(
            {.mac = kOurMac,
             .addresses = {InterfaceAddress::Ipv4(kOurs), {Gid::FromIpv4(Ip(10, 0, 7, 1)), 24, 7}},
             .link_local = true}) {}
  static std::vector<uint8_t> Tagged(std::vector<uint8_t> frame, uint16_t tci) {
    const uint8_t tag[] = {0x81, 0x00, static_cast<uint8_t>(tci >> 8), static_cast<uint8_t>(tci)};
    frame.insert(frame.begin() + 12, std::begin(tag), std::end(tag));
    return frame;
  }
  static constexpr uint32_t kOursOn7 = Ip(10, 0, 7, 1);
  static constexpr uint32_t kPeerOn7 = Ip(10, 0, 7, 2);
};

TEST_F(InterfaceVlanTest, GidsHaveTheirVlan) {
  ASSERT_EQ(interface_.gid_table_size(), 4u);
  EXPECT_EQ(*interface_.QueryGid(0), kOurVlanLinkLocal);
  EXPECT_EQ(interface_.GidVlan(0), kNoVlan);
  EXPECT_EQ(interface_.GidVlan(1), kNoVlan);
  EXPECT_EQ(*interface_.QueryGid(2), kOurVlanLinkLocal);
  EXPECT_EQ(interface_.GidVlan(2), 7);
  EXPECT_EQ(interface_.GidVlan(3), 7);
  EXPECT_EQ(interface_.SourceIndex(Gid::FromIpv4(kPeerOn7)).value(), 3);
  const uint8_t untagged[18] = {2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0};
  const uint8_t on7[18] = {2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x81, 0, 0x60, 7, 8, 0};
  // A tag with a priority and no VLAN.
  const uint8_t on0[18] = {2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x81, 0, 0x60, 0, 8, 0};
  EXPECT_TRUE(interface_.IsOurs(untagged, Gid::FromIpv4(kOurs)));
  EXPECT_TRUE(interface_.IsOurs(on0, Gid::FromIpv4(kOurs)));
  EXPECT_FALSE(interface_.IsOurs(on7, Gid::FromIpv4(kOurs)));
  EXPECT_TRUE(interface_.IsOurs(on7, Gid::FromIpv4(kOursOn7)));
  EXPECT_FALSE(interface_.IsOurs(untagged, Gid::FromIpv4(kOursOn7)));
}

class InterfaceOnVlanTest : public InterfaceHost {
 protected:
  InterfaceOnVlanTest()
      : InterfaceHost({.mac = kOurMac,
                       .addresses = {{ParseAddress("2001:db8::1").value(), 64, 7}},
                       .link_local = true}) {}
};

TEST_F(InterfaceOnVlanTest, GroupsAreOnTheVlanOfTheAddress) {
  for (const char* group : {"ff02::1234", "ff0e::1234"}) {
    const uint8_t index = interface_.SourceIndex(ParseAddress(group).value()).value();
    EXPECT_EQ(interface_.GidVlan(index), 7) << group;
  }
}

TEST_F(InterfaceVlanTest, RepliesUseTheVlanOfTheRequest) {
  Settle();
  Arrive(Tagged(Arp(wire::kArpRequest, kPeerOn7, kPeerMac, kOursOn7), 0x6007));
  ASSERT_EQ(link_.sent.size(), 1u);
  auto ethernet = wire::ParseEthernet(link_.sent[0].data(), link_.sent[0].size());
  EXPECT_EQ(ethernet->vlan_tci, 7);
  EXPECT_EQ(ethernet->ether_type, wire::kEtherTypeArp);
  link_.sent.clear();
  Arrive(Tagged(Echo(8, kPeerOn7, kOursOn7), 7));
  ASSERT_EQ(link_.sent.size(), 1u);
  ethernet = wire::ParseEthernet(link_.sent[0].data(), link_.sent[0].size());
  EXPECT_EQ(ethernet->vlan_tci, 7);
  link_.sent.clear();
  // Not on another VLAN.
  Arrive(Arp(wire::kArpRequest, kPeerOn7, kPeerMac, kOursOn7));
  Arrive(Tagged(Arp(wire::kArpRequest, kPeerOn7, kPeerMac, kOursOn7), 8));
  Arrive(Tagged(Arp(wire::kArpRequest, kPeer, kPeerMac, kOurs), 7));
  Arrive(Echo(8, kPeerOn7, kOursOn7));
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceVlanTest, NeighboursBelongToAVlan) {
  Settle();
  EXPECT_FALSE(Resolve(kPeerOn7).has_value());
  ASSERT_EQ(link_.sent.size(), 1u);
  EXPECT_EQ(wire::ParseEthernet(link_.sent[0].data(), link_.sent[0].size())->vlan_tci, 7);
  Arrive(Arp(wire::kArpReply, kPeerOn7, kPeerMac, kOursOn7));
  Arrive(Tagged(Arp(wire::kArpReply, kPeerOn7, kPeerMac, kOursOn7), 8));
  EXPECT_FALSE(results_[0]->has_value());
  Arrive(Tagged(Arp(wire::kArpReply, kPeerOn7, kPeerMac, kOursOn7), 7));
  EXPECT_TRUE(results_[0]->value().ok());
  // One link-local address on two VLANs: two hosts.
  ibv_ah_attr attr{};
  const auto untagged = Handle(kPeerVlanLinkLocal, attr);
  attr.grh.sgid_index = 2;
  const auto on7 = Handle(kPeerVlanLinkLocal, attr);
  ASSERT_TRUE(untagged.ok() && on7.ok());
  EXPECT_NE(untagged->link, on7->link);
  EXPECT_EQ(untagged->vlan_tci, std::nullopt);
}

TEST_F(InterfaceVlanTest, PriorityComesFromServiceLevelOrTrafficClass) {
  Settle();
  ibv_ah_attr attr{};
  attr.grh.sgid_index = 3;
  const Gid peer = Gid::FromIpv4(kPeerOn7);
  EXPECT_EQ(Handle(peer, attr)->vlan_tci, 0x0007);
  attr.grh.traffic_class = 0xB8;  // expedited forwarding: class 5
  EXPECT_EQ(Handle(peer, attr)->vlan_tci, 0xA007);
  attr.sl = 3;
  EXPECT_EQ(Handle(peer, attr)->vlan_tci, 0x6007);
  attr.sl = 15;  // InfiniBand has 16 levels, 802.1Q eight
  EXPECT_EQ(Handle(peer, attr)->vlan_tci, 0xE007);
}

}  // namespace
}  // namespace pollux::ip
