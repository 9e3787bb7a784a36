// Neighbour discovery, ICMPv6 echo and the GID table of an interface with both IP versions.
#include <gtest/gtest.h>

#include <vector>

#include "stack/ip/interface_fixture.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/multicast.h"
#include "stack/wire/neighbour_discovery.h"

namespace pollux::ip {
namespace {

using transport::Drop;

Gid V6(const char* text) { return ParseAddress(text).value(); }

const Gid kOurs6 = V6("2001:db8::1");
const Gid kPeer6 = V6("2001:db8::2");
const Gid kOurLinkLocal = V6("fe80::ff:fe00:1");
const Gid kPeerLinkLocal = V6("fe80::ff:fe00:2");
const Gid kGateway6 = V6("2001:db8::fe");
const MacAddress kOther{2, 0, 0, 0, 0, 3};

class InterfaceIpv6Test : public InterfaceHost {
 protected:
  explicit InterfaceIpv6Test(bool answers = true)
      : InterfaceHost({.mac = kOurMac,
                       .addresses = {InterfaceAddress::Ipv4(kOurs), {kOurs6, 64}},
                       .gateways = {kGateway6},
                       .link_local = true,
                       .answers = answers}) {}

  struct Sent {
    wire::EthernetHeader ethernet;
    wire::Ipv6Header ip;
    std::vector<uint8_t> packet;  // from the IPv6 header on
    const uint8_t* message() const { return packet.data() + wire::kIpv6Bytes; }
    size_t bytes() const { return packet.size() - wire::kIpv6Bytes; }
  };
  // The oldest frame sent, which must be ICMPv6 with a right checksum.
  Sent Take() {
    Sent sent;
    if (link_.sent.empty()) {
      ADD_FAILURE() << "nothing was sent";
      sent.packet.resize(wire::kIpv6Bytes);
      return sent;
    }
    const std::vector<uint8_t> frame = link_.sent.front();
    link_.sent.pop_front();
    sent.ethernet = *wire::ParseEthernet(frame.data(), frame.size());
    EXPECT_EQ(sent.ethernet.ether_type, wire::kEtherTypeIpv6);
    EXPECT_EQ(sent.ethernet.source, kOurMac);
    sent.packet.assign(frame.begin() + 14, frame.end());
    sent.ip = wire::ParseIpv6(sent.packet.data(), sent.packet.size()).value_or(wire::Ipv6Header{});
    EXPECT_EQ(sent.ip.next_header, wire::kIpProtocolIcmpV6);
    EXPECT_EQ(sent.ip.payload_length, sent.bytes());
    EXPECT_TRUE(wire::Icmpv6ChecksumIsValid(sent.packet.data(), sent.message(), sent.bytes()));
    return sent;
  }
  wire::NeighbourSolicitation TakeSolicitation() {
    last_sent_ = Take();
    EXPECT_EQ(last_sent_.ip.hop_limit, 255);
    const auto parsed = wire::ParseNeighbourSolicitation(last_sent_.message(), last_sent_.bytes());
    EXPECT_TRUE(parsed.has_value());
    return parsed.value_or(wire::NeighbourSolicitation{});
  }
  wire::NeighbourAdvertisement TakeAdvertisement() {
    last_sent_ = Take();
    EXPECT_EQ(last_sent_.ip.hop_limit, 255);
    const auto parsed = wire::ParseNeighbourAdvertisement(last_sent_.message(), last_sent_.bytes());
    EXPECT_TRUE(parsed.has_value());
    return parsed.value_or(wire::NeighbourAdvertisement{});
  }

  static std::vector<uint8_t> Packet(const Gid& from, const Gid& to, const MacAddress& mac,
                                     size_t bytes, uint8_t hop_limit) {
    std::vector<uint8_t> frame(wire::kEthernetBytes + wire::kIpv6Bytes + bytes, 0x77);
    wire::EmitEthernet({.destination = to.IsMulticast() ? wire::MulticastMac(to) : kOurMac,
                        .source = mac,
                        .vlan_tci = std::nullopt,
                        .ether_type = wire::kEtherTypeIpv6},
                       frame.data());
    wire::EmitIpv6({.payload_length = static_cast<uint16_t>(bytes),
                    .next_header = wire::kIpProtocolIcmpV6,
                    .hop_limit = hop_limit,
                    .source = from,
                    .destination = to},
                   frame.data() + wire::kEthernetBytes);
    return frame;
  }
  template <class Message>
  static std::vector<uint8_t> Nd(const Message& message, const Gid& from, const Gid& to,
                                 const MacAddress& mac = kPeerMac, uint8_t hop_limit = 255) {
    std::vector<uint8_t> frame = Packet(from, to, mac, wire::SizeOf(message), hop_limit);
    uint8_t* l3 = frame.data() + wire::kEthernetBytes;
    wire::EmitNeighbour(message, l3, l3 + wire::kIpv6Bytes);
    return frame;
  }
  static std::vector<uint8_t> Ns(const Gid& target, const Gid& from,
                                 const MacAddress& mac = kPeerMac) {
    return Nd(wire::NeighbourSolicitation{.target = target, .source_mac = mac}, from,
              wire::SolicitedNodeGroup(target), mac);
  }
  static std::vector<uint8_t> Na(const Gid& target, const MacAddress& mac = kPeerMac) {
    return Nd(
        wire::NeighbourAdvertisement{
            .target = target, .solicited = true, .overrides = true, .target_mac = mac},
        target, kOurs6, mac);
  }
  // To everyone, unasked.
  static std::vector<uint8_t> Announcement(const Gid& target, const MacAddress& mac,
                                           bool overrides) {
    return Nd(
        wire::NeighbourAdvertisement{.target = target, .overrides = overrides, .target_mac = mac},
        target, wire::kAllNodesIpv6, mac);
  }
  static std::vector<uint8_t> Echo6(size_t data_bytes, const Gid& from, const Gid& to) {
    std::vector<uint8_t> frame = Packet(from, to, kPeerMac, wire::kIcmpEchoBytes + data_bytes, 64);
    uint8_t* l3 = frame.data() + wire::kEthernetBytes;
    wire::EmitIcmpv6Echo({.type = wire::kIcmpv6EchoRequest, .identifier = 7, .sequence = 9}, l3,
                         l3 + wire::kIpv6Bytes, wire::kIcmpEchoBytes + data_bytes);
    return frame;
  }
  NeighbourState State(const Gid& gid) { return interface_.neighbours().state({gid}); }

  Sent last_sent_;
};

TEST_F(InterfaceIpv6Test, TheGidTableMatchesThatOfLinux) {
  ASSERT_EQ(interface_.gid_table_size(), 3u);
  EXPECT_EQ(*interface_.QueryGid(0), kOurLinkLocal);
  EXPECT_EQ(*interface_.QueryGid(1), Gid::FromIpv4(kOurs));
  EXPECT_EQ(*interface_.QueryGid(2), kOurs6);
  const ibv_gid_entry entry = interface_.QueryGidEx(2).value();
  EXPECT_EQ(std::memcmp(entry.gid.raw, kOurs6.raw.data(), 16), 0);
  EXPECT_EQ(entry.gid_index, 2u);
  EXPECT_EQ(entry.port_num, 1u);
  EXPECT_EQ(entry.gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2));
  EXPECT_EQ(interface_.QueryGidEx(3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(interface_.QueryGidEx(UINT32_MAX).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(interface_.SourceIndex(kPeerLinkLocal).value(), 0);
  EXPECT_EQ(interface_.SourceIndex(Gid::FromIpv4(kPeer)).value(), 1);
  EXPECT_EQ(interface_.SourceIndex(kPeer6).value(), 2);
  EXPECT_EQ(interface_.SourceIndex(V6("2001:db8:9::1")).value(), 2);
  EXPECT_EQ(interface_.SourceIndex(V6("ff02::1234")).value(), 0);
  EXPECT_EQ(interface_.SourceIndex(V6("ff05::1234")).value(), 2);
  EXPECT_EQ(interface_.SourceIndex(Gid::FromIpv4(Ip(9, 9, 9, 9))).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(interface_.GidIndex(kOurs6), 2);
  EXPECT_EQ(interface_.GidIndex(kPeer6), std::nullopt);
  EXPECT_EQ(interface_.GidIndex(Gid{}), std::nullopt);
  uint8_t frame[14] = {2, 0, 0, 0, 0, 1};
  EXPECT_TRUE(interface_.IsOurs(frame, kOurs6));
  EXPECT_TRUE(interface_.IsOurs(frame, kOurLinkLocal));
  EXPECT_FALSE(interface_.IsOurs(frame, kPeer6));
}

// RFC 4862 section 5.4.2, RFC 4861 section 7.2.6, RFC 3810 section 6.1.
TEST_F(InterfaceIpv6Test, ProbesThenAnnouncesItsAddresses) {
  Pass(1);
  int probes = 0, reports = 0;
  while (!link_.sent.empty()) {
    const std::vector<uint8_t> frame = link_.sent.front();
    const auto ethernet = wire::ParseEthernet(frame.data(), frame.size());
    if (ethernet->ether_type == wire::kEtherTypeArp) {
      EXPECT_EQ(TakeArp().sender_address, 0u);
      ++probes;
      continue;
    }
    const auto ip = wire::ParseIpv6(frame.data() + 14, frame.size() - 14);
    ASSERT_TRUE(ip.has_value());
    if (ip->next_header != wire::kIpProtocolIcmpV6) {  // MLD, see groups_test.cc
      ++reports;
      link_.sent.pop_front();
      continue;
    }
    const wire::NeighbourSolicitation probe = TakeSolicitation();
    EXPECT_TRUE(last_sent_.ip.source.IsZero());
    EXPECT_EQ(last_sent_.ip.destination, wire::SolicitedNodeGroup(probe.target));
    EXPECT_EQ(last_sent_.ethernet.destination, wire::MulticastMac(last_sent_.ip.destination));
    EXPECT_EQ(probe.source_mac, std::nullopt);
    ++probes;
  }
  EXPECT_EQ(probes, 3);
  EXPECT_EQ(reports, 1);  // both IPv6 addresses have one group
  Pass(Interface::kProbeNs);
  int announcements = 0;
  while (!link_.sent.empty()) {
    const auto ethernet = wire::ParseEthernet(link_.sent.front().data(), 14);
    if (ethernet->ether_type == wire::kEtherTypeArp) {
      TakeArp();
      continue;
    }
    if (link_.sent.front()[20] != wire::kIpProtocolIcmpV6) {  // MLD, repeated
      link_.sent.pop_front();
      continue;
    }
    const wire::NeighbourAdvertisement told = TakeAdvertisement();
    EXPECT_EQ(last_sent_.ip.source, told.target);
    EXPECT_EQ(last_sent_.ip.destination, wire::kAllNodesIpv6);
    EXPECT_FALSE(told.solicited);
    EXPECT_TRUE(told.overrides);
    EXPECT_EQ(told.target_mac, kOurMac);
    ++announcements;
  }
  EXPECT_EQ(announcements, 2);
}

TEST_F(InterfaceIpv6Test, AnAddressConflictIsReportedAndNotAnnounced) {
  Pass(1);
  Arrive(Announcement(kOurs6, kPeerMac, /*overrides=*/true));
  EXPECT_EQ(interface_.conflict(), (AddressConflict{kOurs6, kPeerMac}));
  EXPECT_EQ(interface_.counters().nd_conflicts, 1u);
  const uint64_t before = interface_.counters().nd_advertisements_sent;
  Pass(kSecond);
  EXPECT_EQ(interface_.counters().nd_advertisements_sent, before + 1);  // the link-local one's
}

TEST_F(InterfaceIpv6Test, AnswersSolicitationsAndLearnsFromThem) {
  Settle();
  for (const auto& [ours, peer] : {std::pair(kOurs6, kPeer6), {kOurLinkLocal, kPeerLinkLocal}}) {
    Arrive(Ns(ours, peer));
    const wire::NeighbourAdvertisement answer = TakeAdvertisement();
    EXPECT_EQ(answer,
              (wire::NeighbourAdvertisement{
                  .target = ours, .solicited = true, .overrides = true, .target_mac = kOurMac}));
    EXPECT_EQ(last_sent_.ethernet.destination, kPeerMac);
    EXPECT_EQ(last_sent_.ip.source, ours);
    EXPECT_EQ(last_sent_.ip.destination, peer);
    // Nobody had asked it: stale at most (RFC 4861 section 7.2.3). It can be used at once, and is
    // confirmed then.
    EXPECT_EQ(State(peer), NeighbourState::kStale);
    EXPECT_TRUE(Resolve(peer).value().ok());
    EXPECT_EQ(TakeSolicitation().target, peer);
    EXPECT_EQ(last_sent_.ethernet.destination, kPeerMac);
  }
}

// A switch may replace a group's MAC address by a member's (RFC 6085).
TEST_F(InterfaceIpv6Test, AnswersSolicitationsOfItsGroupSentToItsOwnMac) {
  Settle();
  std::vector<uint8_t> frame = Ns(kOurs6, kPeer6);
  std::copy(kOurMac.begin(), kOurMac.end(), frame.begin());
  Arrive(frame);
  EXPECT_EQ(TakeAdvertisement().target, kOurs6);
  std::copy(kOtherMac.begin(), kOtherMac.end(), frame.begin());
  Arrive(frame);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceIpv6Test, AnswersHostsOutsideItsPrefixesWithoutLearningFromThem) {
  Settle();
  const Gid peer = V6("2001:db9::2");
  Arrive(Ns(kOurs6, peer));
  EXPECT_EQ(TakeAdvertisement().target, kOurs6);
  EXPECT_EQ(last_sent_.ip.destination, peer);
  EXPECT_EQ(last_sent_.ethernet.destination, kPeerMac);
  EXPECT_EQ(interface_.neighbours().size(), 0u);
  EXPECT_EQ(interface_.counters().nd_learned, 0u);
  Arrive(Ns(kOurs6, kOurs6));  // another host that uses the address
  EXPECT_TRUE(link_.sent.empty());
}

// As a worker's that shares the addresses with one that answers.
class ListeningInterfaceTest : public InterfaceIpv6Test {
 protected:
  ListeningInterfaceTest() : InterfaceIpv6Test(/*answers=*/false) {}
};

TEST_F(ListeningInterfaceTest, SendsNothingUnsolicited) {
  Pass(10 * kSecond);
  Arrive(Arp(wire::kArpRequest, kPeer, kPeerMac, kOurs));
  Arrive(Echo(8));
  Arrive(Echo6(8, kPeer6, kOurs6));
  Arrive(Nd(wire::NeighbourSolicitation{.target = kOurs6, .source_mac = kPeerMac}, kPeer6, kOurs6,
            kPeerMac));
  EXPECT_TRUE(link_.sent.empty());
  EXPECT_EQ(interface_.counters().arp_replies_sent, 0u);
  EXPECT_EQ(interface_.counters().nd_advertisements_sent, 0u);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kStale) << "learned all the same";
  EXPECT_EQ(State(kPeer6), NeighbourState::kStale);
}

TEST_F(ListeningInterfaceTest, ResolvesAndLearnsNeighbours) {
  EXPECT_FALSE(Resolve(kPeer).has_value());
  EXPECT_EQ(TakeArp().target_address, kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  EXPECT_TRUE(results_[0]->value().ok());
  EXPECT_FALSE(Resolve(kPeer6).has_value());
  EXPECT_EQ(TakeSolicitation().target, kPeer6);
  Arrive(Na(kPeer6));
  EXPECT_TRUE(results_[1]->value().ok());
}

TEST_F(InterfaceIpv6Test, DefendsItsAddressAgainstAProbe) {
  Settle();
  const wire::NeighbourSolicitation probe{.target = kOurs6, .source_mac = std::nullopt};
  Arrive(Nd(probe, Gid{}, wire::SolicitedNodeGroup(kOurs6)));
  const wire::NeighbourAdvertisement answer = TakeAdvertisement();
  EXPECT_EQ(last_sent_.ip.destination, wire::kAllNodesIpv6);
  EXPECT_FALSE(answer.solicited);
  EXPECT_EQ(answer.target_mac, kOurMac);
  // RFC 4861 section 7.1.1: no probe when it goes to one host or names a MAC address.
  Arrive(Nd(probe, Gid{}, kOurs6));
  Arrive(Ns(kOurs6, Gid{}));
  EXPECT_TRUE(link_.sent.empty());
  EXPECT_EQ(interface_.neighbours().size(), 0u);
}

TEST_F(InterfaceIpv6Test, UnsolicitedMessagesAddNoNeighbours) {
  Settle();
  Arrive(Na(kPeer6));                                        // not asked
  Arrive(Announcement(kPeer6, kPeerMac, true));              // of no interest
  Arrive(Ns(V6("2001:db8::1:1"), kPeer6));                   // about another, in the same group
  Arrive(Ns(kOurs6, V6("ff02::5")));                         // from a group
  Arrive(Ns(kOurs6, kPeer6, MacAddress{3, 0, 0, 0, 0, 1}));  // with a group's MAC
  const wire::NeighbourSolicitation asked{.target = kOurs6, .source_mac = kPeerMac};
  Arrive(Nd(asked, kPeer6, kOurs6, kPeerMac, 254));  // crossed a router
  EXPECT_TRUE(link_.sent.empty());
  EXPECT_EQ(interface_.neighbours().size(), 0u);
  EXPECT_EQ(interface_.counters().nd_learned, 0u);
}

TEST_F(InterfaceIpv6Test, ResolvesByNeighbourSolicitation) {
  Settle();
  EXPECT_FALSE(Resolve(kPeer6).has_value());
  const wire::NeighbourSolicitation asked = TakeSolicitation();
  EXPECT_EQ(asked, (wire::NeighbourSolicitation{.target = kPeer6, .source_mac = kOurMac}));
  EXPECT_EQ(last_sent_.ip.source, kOurs6);
  EXPECT_EQ(last_sent_.ip.destination, wire::SolicitedNodeGroup(kPeer6));
  EXPECT_EQ(last_sent_.ethernet.destination, (MacAddress{0x33, 0x33, 0xFF, 0, 0, 2}));
  // A late copy of somebody else's answer to everyone answers nobody.
  Arrive(Nd(
      wire::NeighbourAdvertisement{
          .target = kPeer6, .solicited = true, .overrides = true, .target_mac = kOther},
      kPeer6, wire::kAllNodesIpv6));
  EXPECT_FALSE(results_[0]->has_value());
  Arrive(Na(kPeer6));
  EXPECT_TRUE(results_[0]->value().ok());
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceIpv6Test, GivesUpAfterThreeRequestsOneSecondApart) {
  Settle();
  const uint64_t before = interface_.counters().nd_solicitations_sent;
  EXPECT_FALSE(Resolve(kPeerLinkLocal).has_value());
  Pass(3 * kSecond - 1);
  EXPECT_FALSE(results_[0]->has_value());
  Pass(1);
  EXPECT_EQ(interface_.counters().nd_solicitations_sent, before + 3);
  EXPECT_EQ(results_[0]->value().message(),
            "no answer to neighbour discovery for fe80::ff:fe00:2 (3 requests, 1 s apart)");
}

TEST_F(InterfaceIpv6Test, OffLinkDestinationsResolveTheGateway) {
  Settle();
  EXPECT_FALSE(Resolve(V6("2001:db8:7::7")).has_value());
  EXPECT_EQ(TakeSolicitation().target, kGateway6);
  Arrive(Na(kGateway6));
  EXPECT_TRUE(results_[0]->value().ok());
}

TEST_F(InterfaceIpv6Test, FramesWaitWhileAnAddressHandleResolves) {
  Settle();
  ibv_ah_attr attr{};
  attr.grh.sgid_index = 2;
  attr.grh.hop_limit = 3;
  attr.grh.traffic_class = 0xB8;
  attr.grh.flow_label = 0x12345;
  const auto handle = Handle(kPeer6, attr);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(handle->source, kOurs6);
  EXPECT_EQ(handle->destination, kPeer6);
  EXPECT_EQ(handle->hop_limit, 3);
  EXPECT_EQ(handle->traffic_class, 0xB8);
  EXPECT_EQ(handle->flow_label, 0x12345u);
  EXPECT_EQ(handle->vlan_tci, std::nullopt);
  link_.sent.clear();
  SendWaiting(handle->link, 1);
  EXPECT_TRUE(link_.sent.empty());
  Arrive(Na(kPeer6));
  ASSERT_EQ(link_.sent.size(), 1u);
  EXPECT_EQ(std::memcmp(link_.sent[0].data(), kPeerMac.data(), 6), 0);
  // The IP versions must agree.
  EXPECT_EQ(Handle(Gid::FromIpv4(kPeer), attr).status().code(), absl::StatusCode::kInvalidArgument);
  attr.grh.sgid_index = 1;
  EXPECT_EQ(Handle(kPeer6, attr).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(InterfaceIpv6Test, AnAnnouncementMovesANeighbourOnlyIfTheOldOneIsSilent) {
  Settle();
  ibv_ah_attr attr{};
  attr.grh.sgid_index = 2;
  const auto handle = Handle(kPeer6, attr);
  Arrive(Na(kPeer6));
  link_.sent.clear();
  // Without the override flag it says nothing.
  Arrive(Announcement(kPeer6, kOther, /*overrides=*/false));
  EXPECT_TRUE(link_.sent.empty());
  Arrive(Announcement(kPeer6, kOther, /*overrides=*/true));
  TakeSolicitation();
  EXPECT_EQ(last_sent_.ethernet.destination, kPeerMac);
  EXPECT_EQ(State(kPeer6), NeighbourState::kProbe);
  Arrive(Na(kPeer6, kOther));
  Arrive(Na(kPeer6));
  EXPECT_EQ(State(kPeer6), NeighbourState::kReachable);
  EXPECT_EQ(handle->link->Load().mac, kPeerMac);
  Arrive(Announcement(kPeer6, kOther, /*overrides=*/true));
  Pass(NeighbourTable::kMaxRequests * NeighbourTable::kDoubtRetryNs);
  Arrive(Na(kPeer6, kOther));
  EXPECT_EQ(handle->link->Load().mac, kOther);
}

// RFC 4861 section 7.2.4: an answer to a direct question may leave the MAC address out.
TEST_F(InterfaceIpv6Test, AnAdvertisementWithoutMacConfirmsTheSolicitedNeighbour) {
  Settle();
  ibv_ah_attr attr{};
  attr.grh.sgid_index = 2;
  const auto handle = Handle(kPeer6, attr);
  const auto answer = [](const MacAddress& from) {
    return Nd(wire::NeighbourAdvertisement{.target = kPeer6, .solicited = true}, kPeer6, kOurs6,
              from);
  };
  Arrive(answer(kPeerMac));
  EXPECT_EQ(State(kPeer6), NeighbourState::kIncomplete) << "everyone was asked";
  Arrive(Na(kPeer6));
  link_.sent.clear();
  while (link_.sent.empty()) Pass(kSecond);
  EXPECT_EQ(State(kPeer6), NeighbourState::kProbe);
  Arrive(answer(kOther));
  EXPECT_EQ(State(kPeer6), NeighbourState::kProbe);
  Arrive(answer(kPeerMac));
  EXPECT_EQ(State(kPeer6), NeighbourState::kReachable);
  EXPECT_EQ(handle->link->Load().mac, kPeerMac);
}

TEST_F(InterfaceIpv6Test, UsedNeighboursAreConfirmedByUnicastFirst) {
  Settle();
  ibv_ah_attr attr{};
  attr.grh.sgid_index = 2;
  const auto handle = Handle(kPeer6, attr);
  Arrive(Na(kPeer6));
  link_.sent.clear();
  while (link_.sent.empty()) Pass(kSecond);
  TakeSolicitation();
  EXPECT_EQ(last_sent_.ethernet.destination, kPeerMac);
  EXPECT_EQ(last_sent_.ip.destination, kPeer6);
  Arrive(Na(kPeer6));
  EXPECT_EQ(State(kPeer6), NeighbourState::kReachable);
}

TEST_F(InterfaceIpv6Test, EchoRequestsAreAnswered) {
  Settle();
  for (const auto& [ours, peer] : {std::pair(kOurs6, kPeer6), {kOurLinkLocal, kPeerLinkLocal}}) {
    const std::vector<uint8_t> request = Echo6(56, peer, ours);
    Arrive(request);
    const Sent reply = Take();
    EXPECT_EQ(reply.ethernet.destination, kPeerMac);
    EXPECT_EQ(reply.ip.source, ours);
    EXPECT_EQ(reply.ip.destination, peer);
    const auto echo = wire::ParseIcmpv6Echo(reply.message(), reply.bytes());
    ASSERT_TRUE(echo.has_value());
    EXPECT_EQ(*echo,
              (wire::IcmpEcho{.type = wire::kIcmpv6EchoReply, .identifier = 7, .sequence = 9}));
    EXPECT_TRUE(std::equal(reply.message() + 8, reply.message() + reply.bytes(),
                           request.begin() + 62, request.end()));
  }
  EXPECT_EQ(interface_.neighbours().size(), 0u);
}

TEST_F(InterfaceIpv6Test, InvalidAndForeignEchoRequestsAreNotAnswered) {
  Settle();
  Arrive(Echo6(8, kPeer6, V6("2001:db8::9")));
  Arrive(Echo6(8, kPeer6, wire::kAllNodesIpv6));  // an amplifier
  EXPECT_EQ(counters_.drop(Drop::kNotForUs), 2u);
  Arrive(Echo6(8, wire::kAllNodesIpv6, kOurs6));
  Arrive(Echo6(8, kOurs6, kOurs6));
  EXPECT_EQ(interface_.counters().echo_ignored, 2u);
  std::vector<uint8_t> bytes = Echo6(8, kPeer6, kOurs6);
  bytes.back() ^= 1;
  Arrive(bytes);
  EXPECT_EQ(counters_.drop(Drop::kBadIpHeader), 1u);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceIpv6Test, EveryTruncationIsDroppedAndCounted) {
  Settle();
  for (const std::vector<uint8_t>& whole : {Echo6(20, kPeer6, kOurs6), Ns(kOurs6, kPeer6)}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      uint64_t before = interface_.counters().nd_ignored + interface_.counters().echo_ignored;
      for (uint64_t count : counters_.drops) before += count;
      Arrive(std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<long>(length)));
      EXPECT_TRUE(link_.sent.empty()) << length;
      uint64_t after = interface_.counters().nd_ignored + interface_.counters().echo_ignored;
      for (uint64_t count : counters_.drops) after += count;
      EXPECT_EQ(after, before + 1) << length;
    }
  }
  EXPECT_EQ(io::FramesInUse(), 0u);
}

TEST_F(InterfaceIpv6Test, RandomFramesAreHarmless) {
  Settle();
  Random noise{uint64_t{98}};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> bytes = noise.Chance(0.5) ? Echo6(30, kPeer6, kOurs6) : Ns(kOurs6, kPeer6);
    for (uint64_t flips = noise.Below(6); flips > 0; --flips) {
      bytes[noise.Below(bytes.size())] = static_cast<uint8_t>(noise.Next32());
    }
    bytes.resize(noise.Below(bytes.size() + 1));
    Arrive(bytes);
    link_.sent.clear();
    now_ns_ += kSecond / 100;
    Pass(0);
    link_.sent.clear();
  }
  EXPECT_EQ(io::FramesInUse(), 0u);
}

}  // namespace
}  // namespace pollux::ip
