#include "stack/transport/endpoint.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/base/byte_order.h"
#include "stack/transport/test_pair.h"
#include "stack/wire/expected_headers.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

TEST(EndpointTest, TheFirstPacketInRtrGivesCommEst) {
  TestPair pair;
  pair.b.endpoint->qp.attr.qp_state = IBV_QPS_RTR;
  pair.b.PostRecv(1, pair.b.memory.data(), 64);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  pair.Run();
  EXPECT_EQ(pair.b.events, std::vector<ibv_event_type>{IBV_EVENT_COMM_EST});
  EXPECT_EQ(pair.a.Poll().size(), 1u) << "acknowledged in RTR";
}

// What the next packet is recognised by holds only for the addresses and the attributes under which
// it was learned.
class ExpectedFrameTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pair_.hook = [this](bool from_a, const wire::RocePacket&, rte_mbuf* frame) {
      const auto* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
      if (from_a) frame_.assign(bytes, bytes + frame->data_len);
      return from_a && drop_ ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    Send();
    drop_ = true;
    Send();  // the frame that is expected next
  }
  void Send() {
    pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
    pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 64);
    pair_.Run();
    pair_.b.Poll();
  }
  bool Takes(uint32_t address_version = 1) {
    PollContext context = pair_.b.context(pair_.now_ns);
    return pair_.b.endpoint->TryExpectedFrame(frame_.data(), frame_.size(), context,
                                              address_version);
  }

  TestPair pair_;
  bool drop_ = false;
  std::vector<uint8_t> frame_;
};

TEST_F(ExpectedFrameTest, IsExecutedOnce) {
  EXPECT_TRUE(Takes());
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
  EXPECT_TRUE(Takes());
  EXPECT_EQ(pair_.b.Poll().size(), 0u) << "a duplicate";
}

TEST_F(ExpectedFrameTest, IsNotExpectedAfterAnAddressChange) {
  EXPECT_FALSE(Takes(2));
  EXPECT_EQ(pair_.b.Poll().size(), 0u);
}

TEST_F(ExpectedFrameTest, IsNotExpectedAfterModifyQp) {
  ibv_qp_attr attr{};
  attr.min_rnr_timer = 3;
  PollContext context = pair_.b.context(pair_.now_ns);
  ASSERT_TRUE(pair_.b.endpoint->Modify(attr, IBV_QP_MIN_RNR_TIMER, context).ok());
  EXPECT_FALSE(Takes());
}

TEST_F(ExpectedFrameTest, WithAWrongIcrcIsDroppedAndPlacesNothing) {
  pair_.b.memory[0] = 0x55;
  frame_[wire::ExpectedHeaders::kMinFrameBytes] ^= 1;
  EXPECT_TRUE(Takes());
  EXPECT_EQ(pair_.b.counters.drop(Drop::kBadIcrc), 1u);
  EXPECT_EQ(pair_.b.memory[0], 0x55);
  EXPECT_EQ(pair_.b.Poll().size(), 0u);
}

// A message that comes after a good one is refused for the same reasons as the first one.
class AfterAGoodMessageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
    pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 64);
    pair_.Run();
    ASSERT_EQ(pair_.b.Poll().size(), 1u);
    pair_.a.Poll();
    pair_.b.memory[0] = 0x55;
    pair_.a.memory[0] = 0x77;
  }
  // What a WRITE of 64 bytes ends with.
  ibv_wc_status Write(uint32_t rkey) {
    pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 64,
                     reinterpret_cast<uint64_t>(pair_.b.memory.data()), rkey);
    pair_.Run();
    const auto completions = pair_.a.Poll();
    return completions.empty() ? IBV_WC_GENERAL_ERR : completions[0].status;
  }
  TestPair pair_;
};

TEST_F(AfterAGoodMessageTest, AWriteIsExecuted) {
  EXPECT_EQ(Write(pair_.b.key), IBV_WC_SUCCESS);
  EXPECT_EQ(pair_.b.memory[0], 0x77);
}

TEST_F(AfterAGoodMessageTest, AWriteWithoutTheAccessFlagIsRefused) {
  pair_.b.endpoint->qp.attr.qp_access_flags &= ~static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE);
  EXPECT_EQ(Write(pair_.b.key), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair_.b.memory[0], 0x55);
}

TEST_F(AfterAGoodMessageTest, AWriteWithAnotherKeyIsRefused) {
  EXPECT_EQ(Write(pair_.b.key + 256), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair_.b.memory[0], 0x55);
}

TEST_F(AfterAGoodMessageTest, AWriteWithAWrongDmaLengthIsRefused) {
  pair_.hook = [](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a) {
      auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      StoreBe32(bytes + packet.ext_offset + 12, 60);
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    }
    return PacketAction::kDeliver;
  };
  EXPECT_EQ(Write(pair_.b.key), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair_.b.memory[0], 0x55);
}

// IB specification section 9.9
TEST_F(AfterAGoodMessageTest, AnOnlyInTheMiddleOfAMessageIsRefused) {
  pair_.hook = [](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a && packet.bth.opcode == wire::Opcode::kRcSendLast) {
      auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      wire::Bth bth = packet.bth;
      bth.opcode = wire::Opcode::kRcSendOnly;
      wire::EmitBth(bth, bytes + packet.bth_offset);
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    }
    return PacketAction::kDeliver;
  };
  for (uint64_t wr_id : {2, 3}) pair_.b.PostRecv(wr_id, pair_.b.memory.data(), 4096);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 1024 + 64);
  pair_.Run();
  const auto sent = pair_.a.Poll();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, IBV_WC_REM_INV_REQ_ERR);
  for (const ibv_wc& wc : pair_.b.Poll()) EXPECT_NE(wc.status, IBV_WC_SUCCESS);
}

TEST_F(AfterAGoodMessageTest, AMessageLongerThanItsReceiveIsRefused) {
  pair_.b.PostRecv(2, pair_.b.memory.data(), 10);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 64);
  pair_.Run();
  const auto received = pair_.b.Poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(pair_.b.memory[0], 0x55);
}

TEST_F(AfterAGoodMessageTest, AMessageWithoutAReceiveIsAnsweredByAnRnrNak) {
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 64);
  pair_.Run();
  EXPECT_EQ(pair_.b.counters.send_rnr_err, 1u);
  EXPECT_EQ(pair_.b.Poll().size(), 0u);
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

TEST(EndpointTest, AQueuePairInErrOrResetReceivesNothing) {
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

TEST(EndpointTest, ErrorDuringATransferFlushes) {
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

TEST(EndpointTest, TrafficOfAllKindsRunsBothWays) {
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
