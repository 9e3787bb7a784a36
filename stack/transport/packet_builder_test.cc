#include "stack/transport/packet_builder.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "stack/transport/test_pair.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::transport {
namespace {

TEST(FlowSourcePortTest, InTheDynamicRangeAndConstant) {
  for (uint32_t i = 1; i < 5000; i += 7) {
    const uint16_t port = FlowSourcePort(Qpn{i}, Qpn{i * 31});
    EXPECT_GE(port, 0xC000);
    EXPECT_EQ(port, FlowSourcePort(Qpn{i}, Qpn{i * 31}));
  }
}

struct PathCase {
  const char* name;
  bool ipv6;
  std::optional<uint16_t> vlan_tci;
  size_t headers;  // Ethernet and IP
};

class PacketBuilderPathTest : public ::testing::TestWithParam<PathCase> {};

Gid Ipv6(uint8_t last) {
  return {.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

TEST_P(PacketBuilderPathTest, EveryLengthParsesBackWithAValidIcrc) {
  TestPair pair;
  PacketBuilder builder;
  verbs::AddressHandle path = pair.a.endpoint->qp.path;
  path.source_mac = {2, 0, 0, 0, 0, 0x55};
  path.traffic_class = 0x68;
  path.hop_limit = 17;
  path.vlan_tci = GetParam().vlan_tci;
  if (GetParam().ipv6) {
    path.source = Ipv6(1);
    path.destination = Ipv6(2);
  }
  builder.Reset(&path, Qpn{0x111}, Qpn{0x222});
  PollContext context = pair.a.context(0);
  for (uint32_t length = 0; length <= 1024; length += length < 16 ? 1 : 63) {
    ASSERT_TRUE(builder.Begin({.opcode = wire::Opcode::kRcSendOnly,
                               .psn = Psn(0xABCDEF),
                               .solicited = true,
                               .ack_request = true,
                               .payload_bytes = length},
                              context));
    builder.Copy(pair.a.memory.data(), length);
    builder.Finish(context);
    pair.a.egress.Flush(0);
    ASSERT_EQ(pair.a.outgoing.size(), 1u);
    rte_mbuf* frame = pair.a.outgoing.front();
    pair.a.outgoing.pop_front();
    const auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseRocePacket(bytes, frame->data_len, &packet), wire::ParseResult::kOk);
    EXPECT_TRUE(wire::IcrcIsValid(packet)) << length;
    EXPECT_EQ(packet.payload_length, length);
    EXPECT_EQ(packet.bth.psn, Psn(0xABCDEF));
    EXPECT_EQ(packet.bth.dest_qpn, Qpn{0x222});
    EXPECT_TRUE(packet.bth.solicited);
    EXPECT_TRUE(packet.bth.ack_request);
    EXPECT_EQ(packet.bth.pad, -length & 3);
    EXPECT_EQ(packet.source(), path.source);
    EXPECT_EQ(packet.destination(), path.destination);
    EXPECT_EQ(frame->data_len,
              GetParam().headers + 8 + wire::kBthBytes + length + packet.bth.pad + 4);
    const auto ethernet = wire::ParseEthernet(bytes, frame->data_len);
    EXPECT_EQ(ethernet->source, path.source_mac);
    EXPECT_EQ(ethernet->vlan_tci, path.vlan_tci);
    const uint8_t* l3 = bytes + packet.l3_offset;
    const size_t l3_bytes = frame->data_len - packet.l3_offset;
    if (GetParam().ipv6) {
      const auto ip = wire::ParseIpv6(l3, l3_bytes);
      ASSERT_TRUE(ip.has_value());
      EXPECT_EQ(ip->traffic_class, 0x68);
      EXPECT_EQ(ip->hop_limit, 17);
      EXPECT_EQ(ip->flow_label, 0u);
      EXPECT_EQ(ip->payload_length, l3_bytes - wire::kIpv6Bytes);
    } else {
      const auto ip = wire::ParseIpv4(l3, l3_bytes);  // with its checksum
      ASSERT_TRUE(ip.has_value());
      EXPECT_EQ(ip->tos, 0x68);
      EXPECT_EQ(ip->ttl, 17);
      EXPECT_EQ(ip->fragment, wire::kIpv4DontFragment);
      EXPECT_EQ(ip->total_length, l3_bytes);
    }
    rte_pktmbuf_free(frame);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PacketBuilderPathTest,
                         ::testing::Values(PathCase{"Ipv4", false, std::nullopt, 34},
                                           PathCase{"Ipv4Vlan", false, 0x6005, 38},
                                           PathCase{"Ipv6", true, std::nullopt, 54},
                                           PathCase{"Ipv6Vlan", true, 0xE00A, 58}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PacketBuilderTest, FollowsANeighbourThatMoves) {
  TestPair pair;
  PacketBuilder builder;
  builder.Reset(&pair.a.endpoint->qp.path, Qpn{1}, Qpn{2});
  PollContext context = pair.a.context(0);
  for (uint8_t last : {1, 2, 2, 3}) {
    if (pair.a.link_address.Load().mac[5] != last) {
      pair.a.link_address.Store({2, 0, 0, 0, 0, last}, true);
    }
    ASSERT_TRUE(builder.Begin({.opcode = wire::Opcode::kRcSendOnly, .psn = Psn(1)}, context));
    builder.Finish(context);
    pair.a.egress.Flush(0);
    rte_mbuf* frame = pair.a.outgoing.back();
    EXPECT_EQ(rte_pktmbuf_mtod(frame, uint8_t*)[5], last);
  }
}

}  // namespace
}  // namespace pollux::transport
