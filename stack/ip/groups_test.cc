// Joining and leaving multicast groups, as routers, switches and senders see it.
#include "stack/ip/groups.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/base/byte_order.h"
#include "stack/ip/interface_fixture.h"
#include "stack/wire/checksum.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/mld.h"
#include "stack/wire/multicast.h"

namespace pollux::ip {
namespace {

using wire::GroupRecord;

const Gid kGroup4 = Gid::FromIpv4(Ip(225, 1, 2, 3));
const Gid kGroup6 = ParseAddress("ff0e::1234").value();
constexpr uint32_t kRouter = Ip(10, 0, 0, 254);

class GroupsTest : public InterfaceHost {
 protected:
  GroupsTest()
      : InterfaceHost(
            {.mac = kOurMac, .addresses = {InterfaceAddress::Ipv4(kOurs)}, .link_local = true}) {
    // Past probes, announcements and both reports of the solicited-node group.
    Pass(3 * kSecond);
    link_.sent.clear();
  }
  absl::Status Join(const Gid& group) { return Join(interface_, group); }
  absl::Status Join(Interface& interface, const Gid& group) {
    transport::PollContext context = Context();
    const absl::Status status = interface.JoinMulticast(group, context);
    egress_.Flush(now_ns_);
    return status;
  }
  absl::Status Leave(const Gid& group) { return Leave(interface_, group); }
  absl::Status Leave(Interface& interface, const Gid& group) {
    transport::PollContext context = Context();
    const absl::Status status = interface.LeaveMulticast(group, context);
    egress_.Flush(now_ns_);
    return status;
  }
  struct Report {
    GroupRecord record;
    Gid group;
    friend bool operator==(const Report&, const Report&) = default;
  };
  // The oldest frame sent, which must be a whole and right report.
  Report TakeReport(uint16_t vlan = kNoVlan) {
    if (link_.sent.empty()) {
      ADD_FAILURE() << "nothing was sent";
      return {};
    }
    const std::vector<uint8_t> frame = link_.sent.front();
    link_.sent.pop_front();
    const auto ethernet = *wire::ParseEthernet(frame.data(), frame.size());
    EXPECT_EQ(VlanOf(ethernet), vlan);
    const uint8_t* l3 = frame.data() + ethernet.bytes();
    const size_t l3_bytes = frame.size() - ethernet.bytes();
    Report report;
    if (ethernet.ether_type == wire::kEtherTypeIpv4) {
      const auto ip = wire::ParseIpv4(l3, l3_bytes);
      EXPECT_TRUE(ip.has_value());
      EXPECT_EQ(ip->protocol, wire::kIpProtocolIgmp);
      EXPECT_EQ(ip->ttl, 1);
      EXPECT_EQ(ip->source, kOurs);
      EXPECT_EQ(ip->destination, Ip(224, 0, 0, 22));
      EXPECT_EQ(ethernet.destination, (MacAddress{1, 0, 0x5E, 0, 0, 22}));
      const uint8_t* igmp = l3 + ip->header_bytes;
      EXPECT_EQ(wire::InternetChecksum(igmp, wire::kIgmpv3ReportBytes), 0);
      report.record = static_cast<GroupRecord>(igmp[8]);
      report.group = Gid::FromIpv4(LoadBe32(igmp + 12));
      return report;
    }
    const auto ip = wire::ParseIpv6(l3, l3_bytes);
    EXPECT_TRUE(ip.has_value());
    EXPECT_EQ(ip->next_header, 0);
    EXPECT_EQ(ip->hop_limit, 1);
    EXPECT_EQ(ip->source, wire::LinkLocalAddress(kOurMac));
    EXPECT_EQ(ip->destination, wire::kMldv2Routers);
    EXPECT_EQ(ethernet.destination, (MacAddress{0x33, 0x33, 0, 0, 0, 0x16}));
    const uint8_t* mld = l3 + wire::kIpv6Bytes + 8;
    EXPECT_TRUE(wire::Icmpv6ChecksumIsValid(l3, mld, wire::kMldv2ReportBytes));
    report.record = static_cast<GroupRecord>(mld[8]);
    std::copy_n(mld + 12, 16, report.group.raw.begin());
    return report;
  }
  // About one group, or about all when it is zero.
  static std::vector<uint8_t> IgmpQuery(uint32_t group, uint8_t tenths, uint8_t ttl = 1) {
    const Gid to = group == 0 ? wire::kAllHostsIpv4 : Gid::FromIpv4(group);
    std::vector<uint8_t> frame(14 + wire::kIpv4RouterAlertBytes + 12);
    wire::EmitEthernet({.destination = wire::MulticastMac(to),
                        .source = kPeerMac,
                        .vlan_tci = std::nullopt,
                        .ether_type = wire::kEtherTypeIpv4},
                       frame.data());
    wire::EmitIpv4RouterAlert({.header_bytes = wire::kIpv4RouterAlertBytes,
                               .total_length = static_cast<uint16_t>(frame.size() - 14),
                               .ttl = ttl,
                               .protocol = wire::kIpProtocolIgmp,
                               .source = kRouter,
                               .destination = to.Ipv4()},
                              frame.data() + 14);
    uint8_t* igmp = frame.data() + 14 + wire::kIpv4RouterAlertBytes;
    igmp[0] = 0x11;
    igmp[1] = tenths;
    StoreBe32(igmp + 4, group);
    StoreBe16(igmp + 2, wire::InternetChecksum(igmp, 12));
    return frame;
  }
  static std::vector<uint8_t> MldQuery(const Gid& group, uint16_t ms, uint8_t hop_limit = 1) {
    const Gid to = group.IsZero() ? wire::kAllNodesIpv6 : group;
    std::vector<uint8_t> frame(14 + wire::kIpv6Bytes + 8 + 28);
    wire::EmitEthernet({.destination = wire::MulticastMac(to),
                        .source = kPeerMac,
                        .vlan_tci = std::nullopt,
                        .ether_type = wire::kEtherTypeIpv6},
                       frame.data());
    uint8_t* l3 = frame.data() + 14;
    wire::EmitIpv6({.payload_length = 36,
                    .next_header = wire::kIpProtocolHopByHop,
                    .hop_limit = hop_limit,
                    .source = ParseAddress("fe80::99").value(),
                    .destination = to},
                   l3);
    std::copy(wire::kMldHopByHop.begin(), wire::kMldHopByHop.end(), l3 + wire::kIpv6Bytes);
    uint8_t* mld = l3 + wire::kIpv6Bytes + 8;
    StoreBe16(mld + 4, ms);
    std::copy(group.raw.begin(), group.raw.end(), mld + 8);
    wire::CloseIcmpv6(wire::kIcmpv6MldQuery, l3, mld, 28);
    return frame;
  }
};

TEST_F(GroupsTest, JoinAndLeaveAreReportedTwice) {
  for (const Gid& group : {kGroup4, kGroup6}) {
    ASSERT_TRUE(Join(group).ok());
    EXPECT_EQ(TakeReport(), (Report{GroupRecord::kJoin, group}));
    EXPECT_TRUE(link_.sent.empty());
    Pass(Groups::kRepeatNs + 1);
    EXPECT_EQ(TakeReport(), (Report{GroupRecord::kJoin, group}));
    Pass(100 * kSecond);
    EXPECT_TRUE(link_.sent.empty());
    ASSERT_TRUE(Leave(group).ok());
    EXPECT_EQ(TakeReport(), (Report{GroupRecord::kLeave, group}));
    Pass(Groups::kRepeatNs + 1);
    EXPECT_EQ(TakeReport(), (Report{GroupRecord::kLeave, group}));
    Pass(100 * kSecond);
    EXPECT_TRUE(link_.sent.empty());
    EXPECT_EQ(Leave(group).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(interface_.deadline_ns(), UINT64_MAX);
}

// A switch may have forgotten them.
TEST_F(GroupsTest, GroupsAreReportedAgainWhenTheLinkComesUp) {
  ASSERT_TRUE(Join(kGroup4).ok());
  ASSERT_TRUE(Join(kGroup6).ok());
  ASSERT_TRUE(Leave(kGroup6).ok());
  Pass(100 * kSecond);
  link_.sent.clear();
  transport::PollContext context = Context();
  interface_.OnLinkUp(context);
  egress_.Flush(now_ns_);
  EXPECT_EQ(TakeReport(), (Report{GroupRecord::kJoin,
                                  wire::SolicitedNodeGroup(wire::LinkLocalAddress(kOurMac))}));
  EXPECT_EQ(TakeReport(), (Report{GroupRecord::kJoin, kGroup4}));
}

TEST_F(GroupsTest, OnlyTheLastLeaveIsReported) {
  ASSERT_TRUE(Join(kGroup4).ok());
  Pass(3 * kSecond);
  link_.sent.clear();
  ASSERT_TRUE(Join(kGroup4).ok());
  ASSERT_TRUE(Leave(kGroup4).ok());
  EXPECT_TRUE(link_.sent.empty());
  ASSERT_TRUE(Leave(kGroup4).ok());
  EXPECT_EQ(TakeReport().record, GroupRecord::kLeave);
  // Back before the leaving was told twice: it is a member.
  ASSERT_TRUE(Join(kGroup4).ok());
  EXPECT_EQ(TakeReport().record, GroupRecord::kJoin);
  Pass(3 * kSecond);
  EXPECT_EQ(TakeReport().record, GroupRecord::kJoin);
  EXPECT_TRUE(link_.sent.empty());
}

class PortGroupsTest : public GroupsTest {
 protected:
  PortGroupsTest() : other_(OfOther(interface_.config())) {}
  static InterfaceConfig OfOther(InterfaceConfig config) {
    config.answers = false;
    return config;
  }
  Interface other_;  // another worker's, with the same MAC and IP addresses
};

TEST_F(PortGroupsTest, OnlyTheLeaveOfTheLastInterfaceIsReported) {
  for (const Gid& group : {kGroup4, kGroup6}) {
    ASSERT_TRUE(Join(group).ok());
    ASSERT_TRUE(Join(other_, group).ok());
    Pass(3 * kSecond);
    link_.sent.clear();
    ASSERT_TRUE(Leave(group).ok());
    Pass(3 * kSecond);
    EXPECT_TRUE(link_.sent.empty());
    EXPECT_EQ(Leave(group).code(), absl::StatusCode::kNotFound);
    ASSERT_TRUE(Leave(other_, group).ok());
    EXPECT_EQ(TakeReport(), (Report{GroupRecord::kLeave, group}));
    link_.sent.clear();
  }
}

TEST_F(PortGroupsTest, ALeaveIsNotRepeatedIfAnotherInterfaceHasJoinedMeanwhile) {
  ASSERT_TRUE(Join(kGroup4).ok());
  Pass(3 * kSecond);
  link_.sent.clear();
  ASSERT_TRUE(Leave(kGroup4).ok());
  EXPECT_EQ(TakeReport().record, GroupRecord::kLeave);
  ASSERT_TRUE(Join(other_, kGroup4).ok());
  EXPECT_EQ(TakeReport().record, GroupRecord::kJoin);
  Pass(3 * kSecond);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(GroupsTest, GroupsOfAllHostsAndOfTheInterfaceAreNeverReported) {
  for (const char* text : {"224.0.0.1", "ff02::1", "ff00::1234", "ff01::1234", "ff11::1234"}) {
    const Gid group = ParseAddress(text).value();
    ASSERT_TRUE(Join(group).ok()) << text;
    Arrive(group.IsIpv4() ? IgmpQuery(0, 10) : MldQuery(group, 1000));
    Pass(3 * kSecond);
    ASSERT_TRUE(Leave(group).ok()) << text;
    Pass(3 * kSecond);
    EXPECT_TRUE(link_.sent.empty()) << text;
  }
  ASSERT_TRUE(Join(ParseAddress("ff02::1234").value()).ok());
  EXPECT_EQ(TakeReport().record, GroupRecord::kJoin);
}

TEST_F(GroupsTest, QueriesAreAnsweredWithinTheResponseTime) {
  ASSERT_TRUE(Join(kGroup4).ok());
  ASSERT_TRUE(Join(kGroup6).ok());
  Pass(3 * kSecond);
  link_.sent.clear();
  Arrive(IgmpQuery(0, 100));
  EXPECT_TRUE(link_.sent.empty());
  Pass(10 * kSecond);
  EXPECT_EQ(TakeReport(), (Report{GroupRecord::kIsMember, kGroup4}));
  EXPECT_TRUE(link_.sent.empty());
  Arrive(IgmpQuery(kGroup4.Ipv4(), 10));
  Pass(kSecond);
  EXPECT_EQ(TakeReport(), (Report{GroupRecord::kIsMember, kGroup4}));
  Arrive(MldQuery(kGroup6, 1000));
  Pass(kSecond);
  EXPECT_EQ(TakeReport(), (Report{GroupRecord::kIsMember, kGroup6}));
  // About all of IPv6's: its own solicited-node group too.
  Arrive(MldQuery(Gid{}, 1000));
  Pass(kSecond);
  EXPECT_EQ(link_.sent.size(), 2u);
  EXPECT_EQ(interface_.counters().membership_queries_rcvd, 4u);
}

TEST_F(GroupsTest, QueriesFromOffTheLinkAreIgnored) {
  ASSERT_TRUE(Join(kGroup4).ok());
  ASSERT_TRUE(Join(kGroup6).ok());
  Pass(3 * kSecond);
  link_.sent.clear();
  Arrive(IgmpQuery(0, 1, 2));
  Arrive(MldQuery(kGroup6, 1, 2));
  Arrive(IgmpQuery(Ip(225, 1, 2, 4), 1));
  ASSERT_TRUE(Leave(kGroup4).ok());
  Pass(3 * kSecond);
  link_.sent.clear();
  Arrive(IgmpQuery(0, 1));
  Pass(kSecond);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(GroupsTest, GroupPacketsAreAcceptedOnConfiguredVlans) {
  for (const Gid& group : {kGroup4, kGroup6}) {
    uint8_t frame[18] = {};
    const MacAddress mac = wire::MulticastMac(group);
    std::copy(mac.begin(), mac.end(), frame);
    EXPECT_TRUE(interface_.IsOfGroup(frame, group));
    EXPECT_FALSE(interface_.IsOurs(frame, group));
    EXPECT_FALSE(interface_.IsOfGroup(frame, Gid::FromIpv4(kPeer)));
    frame[12] = 0x81;
    frame[15] = 7;  // VLAN 7, on which the host has no address
    EXPECT_FALSE(interface_.IsOfGroup(frame, group));
    frame[12] = 0;
    frame[5] ^= 1;  // another's MAC address
    EXPECT_FALSE(interface_.IsOfGroup(frame, group));
  }
}

TEST_F(GroupsTest, AGroupAddressNeedsNoResolution) {
  ibv_ah_attr attr{};
  attr.grh.sgid_index = 1;
  const auto handle = Handle(kGroup4, attr);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_TRUE(handle->link->Load().resolved);
  EXPECT_EQ(handle->link->Load().mac, (MacAddress{1, 0, 0x5E, 1, 2, 3}));
  attr.grh.sgid_index = 0;
  const auto handle6 = Handle(kGroup6, attr);
  ASSERT_TRUE(handle6.ok()) << handle6.status();
  EXPECT_EQ(handle6->link->Load().mac, (MacAddress{0x33, 0x33, 0, 0, 0x12, 0x34}));
  EXPECT_EQ(interface_.SourceIndex(kGroup4).value(), 1);
  EXPECT_EQ(interface_.SourceIndex(kGroup6).value(), 0);
  Pass(1000 * kSecond);
  EXPECT_TRUE(handle->link->Load().resolved);
  EXPECT_TRUE(link_.sent.empty());
  interface_.Release(*handle);
  interface_.Release(*handle6);
}

TEST_F(GroupsTest, InvalidJoinsAndLeavesAreRefused) {
  EXPECT_EQ(Join(Gid::FromIpv4(kPeer)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Leave(kGroup4).code(), absl::StatusCode::kNotFound);
  // The solicited-node group of its link-local address is one already.
  for (uint32_t i = 1; i < Groups::kMaxGroups; ++i) {
    ASSERT_TRUE(Join(Gid::FromIpv4(Ip(226, 0, 0, 0) + i)).ok()) << i;
    link_.sent.clear();
  }
  EXPECT_EQ(Join(kGroup4).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Join(Gid::FromIpv4(Ip(226, 0, 0, 1))).ok());
}

}  // namespace
}  // namespace pollux::ip
