#include "stack/transport/packet_builder.h"

#include <gtest/gtest.h>

#include <numeric>

#include "stack/transport/test_pair.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

TEST(FlowSourcePortTest, InTheDynamicRangeAndConstant) {
  for (uint32_t i = 1; i < 5000; i += 7) {
    const uint16_t port = FlowSourcePort(Qpn{i}, Qpn{i * 31});
    EXPECT_GE(port, 0xC000);
    EXPECT_EQ(port, FlowSourcePort(Qpn{i}, Qpn{i * 31}));
  }
}

TEST(PacketBuilderTest, EveryLengthParsesBackWithAValidIcrc) {
  TestPair pair;
  PacketBuilder builder;
  verbs::AddressHandle path = pair.a.endpoint->qp.path;
  path.traffic_class = 0x68;
  path.hop_limit = 17;
  builder.Reset(&path, Qpn{0x111}, Qpn{0x222});
  PollContext context = pair.a.context(0);
  for (uint32_t length = 0; length <= 1024; length += length < 16 ? 1 : 63) {
    ASSERT_TRUE(builder.Begin({.opcode = wire::Opcode::kRcSendOnly,
                               .psn = Psn(0xABCDEF),
                               .solicited = true,
                               .ack_request = true,
                               .payload_bytes = length},
                              context));
    builder.EndHeaders();
    builder.Copy(pair.a.memory.data(), length);
    builder.Finish(context);
    pair.a.egress.Flush(0);
    ASSERT_EQ(pair.a.outgoing.size(), 1u);
    rte_mbuf* frame = pair.a.outgoing.front();
    pair.a.outgoing.pop_front();
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseRocePacket(rte_pktmbuf_mtod(frame, uint8_t*), frame->data_len, &packet),
              wire::ParseResult::kOk);
    EXPECT_TRUE(wire::IcrcIsValid(packet)) << length;
    EXPECT_EQ(packet.payload_length, length);
    EXPECT_EQ(packet.bth.psn, Psn(0xABCDEF));
    EXPECT_EQ(packet.bth.dest_qpn, Qpn{0x222});
    EXPECT_TRUE(packet.bth.solicited);
    EXPECT_TRUE(packet.bth.ack_request);
    EXPECT_EQ(packet.bth.pad, -length & 3);
    EXPECT_EQ(packet.source(), Gid::FromIpv4(pair.a.address));
    rte_pktmbuf_free(frame);
  }
}

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
    builder.EndHeaders();
    builder.Finish(context);
    pair.a.egress.Flush(0);
    rte_mbuf* frame = pair.a.outgoing.back();
    EXPECT_EQ(rte_pktmbuf_mtod(frame, uint8_t*)[5], last);
  }
}

}  // namespace
}  // namespace pollux::transport
