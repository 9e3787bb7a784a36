#include "stack/transport/endpoint.h"

#include <gtest/gtest.h>

#include "stack/base/byte_order.h"
#include "stack/transport/test_pair.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

TEST(EndpointTest, FirstPacketInRtrIsCommunicationEstablished) {
  TestPair pair;
  pair.b.endpoint->qp.attr.qp_state = IBV_QPS_RTR;
  pair.b.PostRecv(1, pair.b.memory.data(), 64);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  pair.Run();
  EXPECT_EQ(pair.b.events, std::vector<ibv_event_type>{IBV_EVENT_COMM_EST});
  EXPECT_EQ(pair.a.Poll().size(), 1u) << "acknowledged in RTR";
}

TEST(EndpointTest, PkeysMustMatch) {
  TestPair pair;
  pair.hook = [](bool, const wire::RocePacket& packet, rte_mbuf* frame) {
    uint8_t* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    StoreBe16(bytes + packet.bth_offset + 2, 0x8001);
    wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    return PacketAction::kDeliver;
  };
  pair.b.PostRecv(1, pair.b.memory.data(), 64);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  pair.Run();
  EXPECT_EQ(pair.b.counters.drop(Drop::kBadPkey), 1u);
}

TEST(EndpointTest, OpcodesOfAnotherTransportAreDropped) {
  TestPair pair;
  pair.hook = [](bool, const wire::RocePacket& packet, rte_mbuf* frame) {
    uint8_t* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    bytes[packet.bth_offset] = static_cast<uint8_t>(wire::Opcode::kUcSendOnly);
    return PacketAction::kDeliver;
  };
  pair.b.PostRecv(1, pair.b.memory.data(), 64);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  pair.Run();
  EXPECT_EQ(pair.b.counters.drop(Drop::kWrongTransport), 1u);
}

TEST(EndpointTest, InErrorAndResetNothingIsReceived) {
  for (const ibv_qp_state state : {IBV_QPS_ERR, IBV_QPS_RESET}) {
    TestPair pair;
    pair.b.PostRecv(1, pair.b.memory.data(), 64);
    ibv_qp_attr attr{};
    attr.qp_state = state;
    PollContext context = pair.b.context(pair.now_ns);
    ASSERT_TRUE(pair.b.endpoint->Modify(attr, IBV_QP_STATE, context).ok());
    pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
    pair.Run();
    EXPECT_EQ(pair.b.counters.drop(Drop::kQpState), 1u);
    EXPECT_EQ(pair.b.Poll().size(), state == IBV_QPS_ERR ? 1u : 0u) << "flushed, or forgotten";
  }
}

TEST(EndpointTest, ErrorInTheMidstOfATransferFlushes) {
  TestPair pair;
  pair.b.PostRecv(1, pair.b.memory.data(), 1 << 19);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 1 << 19);
  int frames = 0;
  pair.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    if (from_a && ++frames == 20) {
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_ERR;
      PollContext context = pair.a.context(pair.now_ns);
      EXPECT_TRUE(pair.a.endpoint->Modify(attr, IBV_QP_STATE, context).ok());
    }
    return PacketAction::kDeliver;
  };
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST(EndpointTest, MuchTrafficBothWaysAtOnce) {
  TestPair pair;
  for (int round = 0; round < 50; ++round) {
    for (TestNode* node : {&pair.a, &pair.b}) {
      TestNode& peer = node == &pair.a ? pair.b : pair.a;
      peer.PostRecv(round, peer.memory.data(), 1 << 16);
      node->PostSend(IBV_WR_SEND, round, node->memory.data() + (1 << 17), 30'000);
      node->PostSend(IBV_WR_RDMA_READ, round, node->memory.data() + (1 << 18), 20'000,
                     reinterpret_cast<uint64_t>(peer.memory.data()) + (1 << 17), peer.key);
    }
  }
  pair.RunToEnd();
  for (TestNode* node : {&pair.a, &pair.b}) {
    const std::vector<ibv_wc> all = node->Poll();
    EXPECT_EQ(all.size(), 150u);
    for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(node->counters.retransmitted_pkts, 0u);
  }
}

}  // namespace
}  // namespace pollux::transport
