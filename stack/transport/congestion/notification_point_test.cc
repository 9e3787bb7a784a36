#include "stack/transport/congestion/notification_point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "stack/transport/test_pair.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::transport {
namespace {

constexpr MacAddress kOurs = {2, 0, 0, 0, 0, 1};
constexpr MacAddress kTheirs = {2, 0, 0, 0, 0, 2};

struct WayCase {
  const char* name;
  bool ipv6;
  std::optional<uint16_t> vlan_tci;
};

Gid Ipv6(uint8_t last) {
  return {.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

class NotificationPointTest : public ::testing::TestWithParam<WayCase> {
 protected:
  Gid ours() const { return GetParam().ipv6 ? Ipv6(1) : Gid::FromIpv4(0xC0000201); }
  Gid theirs() const { return GetParam().ipv6 ? Ipv6(2) : Gid::FromIpv4(0xC0000202); }

  // What arrives from them, to `destination`.
  void MakeFrame(const Gid& destination) {
    verbs::LinkAddress own_link, link;
    own_link.Store(kTheirs, true);
    link.Store(kOurs, true);
    verbs::AddressHandle path;
    path.source = theirs();
    path.destination = destination;
    path.vlan_tci = GetParam().vlan_tci;
    path.own_link = &own_link;
    path.link = &link;
    PacketBuilder builder;
    builder.Reset(&path, Qpn{0x222}, Qpn{0x111});
    PollContext context = pair_.b.context(0);
    ASSERT_TRUE(builder.Begin({.opcode = wire::Opcode::kRcSendOnly}, context));
    builder.Finish(context);
    frame_ = Take(pair_.b);
    ASSERT_EQ(wire::ParseRocePacket(frame_.data(), frame_.size(), &packet_),
              wire::ParseResult::kOk);
  }
  static std::vector<uint8_t> Take(TestNode& node) {
    node.egress.Flush(0);
    if (node.outgoing.empty()) return {};
    rte_mbuf* mbuf = node.outgoing.front();
    node.outgoing.pop_front();
    const auto* bytes = rte_pktmbuf_mtod(mbuf, const uint8_t*);
    std::vector<uint8_t> frame(bytes, bytes + mbuf->data_len);
    rte_pktmbuf_free(mbuf);
    return frame;
  }
  std::vector<uint8_t> Mark(uint64_t now_ns) {
    PollContext context = pair_.a.context(now_ns);
    point_.OnMarked(packet_, Qpn{0x111}, Qpn{0x222}, context);
    return Take(pair_.a);
  }
  DcqcnParameters parameters_;
  QpDiagnostics diagnostics_;
  NotificationPoint point_{&parameters_, &diagnostics_};
  TestPair pair_;
  std::vector<uint8_t> frame_;
  wire::RocePacket packet_;
};

INSTANTIATE_TEST_SUITE_P(Ways, NotificationPointTest,
                         ::testing::Values(WayCase{"Ipv4", false, {}}, WayCase{"Ipv6", true, {}},
                                           WayCase{"Ipv4Vlan", false, 0x2064},
                                           WayCase{"Ipv6Vlan", true, 0x2064}),
                         [](const auto& info) { return info.param.name; });

TEST_P(NotificationPointTest, CnpReversesThePathOfTheMarkedPacket) {
  MakeFrame(ours());
  const std::vector<uint8_t> cnp = Mark(1'000'000);
  wire::RocePacket packet;
  ASSERT_EQ(wire::ParseRocePacket(cnp.data(), cnp.size(), &packet), wire::ParseResult::kOk);
  EXPECT_TRUE(wire::IcrcIsValid(packet));
  EXPECT_EQ(packet.bth.opcode, wire::Opcode::kCnp);
  EXPECT_TRUE(packet.bth.becn);
  EXPECT_FALSE(packet.bth.ack_request);
  EXPECT_EQ(packet.bth.psn, Psn(0));
  EXPECT_EQ(packet.bth.pkey, 0xFFFF);
  EXPECT_EQ(packet.bth.dest_qpn, Qpn{0x222});
  EXPECT_EQ(packet.source(), ours());
  EXPECT_EQ(packet.destination(), theirs());
  ASSERT_EQ(packet.payload_length, 16);
  EXPECT_TRUE(
      std::all_of(packet.payload(), packet.payload() + 16, [](uint8_t b) { return b == 0; }));
  EXPECT_EQ(packet.icrc_offset + wire::kIcrcBytes - packet.l3_offset, GetParam().ipv6 ? 80 : 60);

  const uint8_t* ip = cnp.data() + packet.l3_offset;
  const int traffic_class =
      GetParam().ipv6 ? (ip[0] << 4 | ip[1] >> 4) & 0xFF : ip[wire::ipv4::kTos];
  EXPECT_EQ(traffic_class, 0xC2) << "DSCP 48, ECT(0), as ConnectX has it";
  const auto ethernet = wire::ParseEthernet(cnp.data(), cnp.size());
  ASSERT_TRUE(ethernet);
  EXPECT_EQ(ethernet->source, kOurs);
  EXPECT_EQ(ethernet->destination, kTheirs);
  EXPECT_EQ(ethernet->vlan_tci.has_value(), GetParam().vlan_tci.has_value());
  if (ethernet->vlan_tci) {
    EXPECT_EQ(*ethernet->vlan_tci, 0xC064) << "the same VLAN, priority 6";
  }
}

TEST_P(NotificationPointTest, AtMostOneCnpIsSentPerInterval) {
  parameters_.min_time_between_cnps = 50;
  MakeFrame(ours());
  EXPECT_FALSE(Mark(1'000'000).empty());
  EXPECT_TRUE(Mark(1'000'001).empty());
  EXPECT_TRUE(Mark(1'049'999).empty());
  EXPECT_FALSE(Mark(1'050'000).empty());
  EXPECT_EQ(pair_.a.counters.np_cnp_sent, 2u);
}

TEST_P(NotificationPointTest, MulticastPacketsCauseNoCnp) {
  Gid group = Gid::FromIpv4(0xE0000105);
  if (GetParam().ipv6) group = {.raw = {0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}};
  MakeFrame(group);
  EXPECT_TRUE(Mark(1'000'000).empty());
  EXPECT_EQ(pair_.a.counters.np_cnp_sent, 0u);
}

// A CNP that finds no room or no buffer is not counted, and the next mark tries again.
TEST_P(NotificationPointTest, ACnpWithoutABufferIsNotCountedAndRetried) {
  MakeFrame(ours());
  PollContext context = pair_.a.context(1'000'000);
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* frame = pair_.a.egress.Allocate()) all.push_back(frame);
  point_.OnMarked(packet_, Qpn{0x111}, Qpn{0x222}, context);
  EXPECT_EQ(pair_.a.counters.np_cnp_sent, 0u);
  for (rte_mbuf* frame : all) rte_pktmbuf_free(frame);
  EXPECT_FALSE(Mark(1'000'001).empty());
}

}  // namespace
}  // namespace pollux::transport
