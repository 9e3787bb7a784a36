// Messages into a shared receive queue.
#include <gtest/gtest.h>

#include <algorithm>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

class SharedReceiveTest : public ::testing::TestWithParam<ibv_qp_type> {
 protected:
  TestPair pair_{GetParam(), nullptr, true};
};

TEST_P(SharedReceiveTest, MessagesTakeReceivesInOrderAndTheLimitRaisesAnEvent) {
  ibv_srq_attr limit{};
  limit.srq_limit = 2;
  for (uint64_t i = 1; i <= 4; ++i) pair_.b.PostRecv(i, pair_.b.memory.data() + 8192 * i, 8192);
  ASSERT_TRUE(pair_.b.srq.Modify(limit, IBV_SRQ_LIMIT).ok());
  for (uint64_t i = 1; i <= 3; ++i) {
    pair_.a.memory[0] = static_cast<uint8_t>(i);
    pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data(), 5000);
    pair_.RunToEnd();
  }
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 3u);
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(all[i - 1].wr_id, i);
    EXPECT_EQ(all[i - 1].qp_num, 0x222u);
    EXPECT_EQ(pair_.b.memory[8192 * i], i);
  }
  pair_.b.srq.DeliverEvents();
  EXPECT_EQ(std::count(pair_.b.events.begin(), pair_.b.events.end(), IBV_EVENT_SRQ_LIMIT_REACHED),
            1);
}

INSTANTIATE_TEST_SUITE_P(Types, SharedReceiveTest, ::testing::Values(IBV_QPT_RC, IBV_QPT_UC));

TEST(SharedReceiveRcTest, AnEmptyQueueAnswersRnrUntilAReceiveIsPosted) {
  TestPair pair(IBV_QPT_RC, nullptr, true);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 8);
  pair.Run();
  EXPECT_EQ(pair.b.counters.send_rnr_err, 1u);
  pair.b.PostRecv(1, pair.b.memory.data(), 64);
  pair.RunToEnd();
  EXPECT_EQ(pair.a.Poll().size(), 1u);
  EXPECT_EQ(pair.b.Poll().size(), 1u);
}

TEST(SharedReceiveUcTest, RefusedMessagesKeepNoReceive) {
  TestPair pair(IBV_QPT_UC, nullptr, true);
  pair.b.PostRecv(1, pair.b.memory.data(), 1500);
  pair.b.PostRecv(2, pair.b.memory.data(), 1500);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 1501);
  const auto remote = reinterpret_cast<uint64_t>(pair.b.memory.data());
  pair.a.PostSend(IBV_WR_RDMA_WRITE_WITH_IMM, 2, pair.a.memory.data(), 8, remote, pair.b.key ^ 1);
  pair.RunToEnd();
  EXPECT_EQ(pair.b.counters.drop(Drop::kReceiveTooSmall), 1u);
  EXPECT_EQ(pair.b.counters.drop(Drop::kRefused), 1u);
  const std::vector<ibv_wc> all = pair.b.Poll();
  ASSERT_EQ(all.size(), 1u) << "the receive that holds a part of the message";
  EXPECT_EQ(all[0].wr_id, 1u);
  EXPECT_EQ(all[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(pair.b.srq.depth(), 1u) << "the others' to take";
  EXPECT_EQ(pair.b.endpoint->qp.state(), IBV_QPS_RTS);
}

TEST(SharedReceiveUdTest, ADatagramThatIsTooLongTakesNoReceive) {
  TestPair pair(IBV_QPT_UD, nullptr, true);
  verbs::AddressHandle ah;
  ah.source = Gid::FromIpv4(pair.a.address);
  ah.destination = Gid::FromIpv4(pair.b.address);
  ah.link = &pair.a.link_address;
  const auto send = [&](uint32_t length) {
    ibv_sge sge{reinterpret_cast<uint64_t>(pair.a.memory.data()), length, pair.a.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {.ah = &ah, .remote_qpn = 0x222, .remote_qkey = 0x11111111};
    EXPECT_EQ(pair.a.endpoint->qp.PostSend(&wr, nullptr), 0);
    pair.RunToEnd();
  };
  pair.b.PostRecv(1, pair.b.memory.data(), 40 + 64);
  ibv_srq_attr limit{};
  limit.srq_limit = 1;
  ASSERT_TRUE(pair.b.srq.Modify(limit, IBV_SRQ_LIMIT).ok());
  send(65);
  EXPECT_EQ(pair.b.counters.drop(Drop::kReceiveTooSmall), 1u);
  EXPECT_TRUE(pair.b.Poll().empty());
  EXPECT_EQ(pair.b.srq.depth(), 1u) << "the others' to take";
  EXPECT_FALSE(pair.b.srq.has_events());
  send(64);
  EXPECT_EQ(pair.b.Poll().size(), 1u);
  EXPECT_EQ(pair.b.srq.depth(), 0u);
}

TEST(SharedReceiveRcTest, OnlyTakenReceivesAreFlushedInErr) {
  TestPair pair(IBV_QPT_RC, nullptr, true);
  for (uint64_t i = 1; i <= 3; ++i) pair.b.PostRecv(i, pair.b.memory.data(), 8192);
  // The second packet of the message never comes.
  int frames = 0;
  pair.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    return from_a && ++frames > 1 ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 5000);
  pair.Run();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  PollContext context = pair.b.context(pair.now_ns);
  ASSERT_TRUE(pair.b.endpoint->Modify(attr, IBV_QP_STATE, context).ok());
  pair.b.endpoint->qp.DeliverEvents();
  EXPECT_EQ(std::count(pair.b.events.begin(), pair.b.events.end(), IBV_EVENT_QP_LAST_WQE_REACHED),
            1);
  const std::vector<ibv_wc> all = pair.b.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.b.srq.depth(), 2u) << "the others' to take";
}

}  // namespace
}  // namespace pollux::transport
