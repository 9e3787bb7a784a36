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
