// IBV_QPS_SQD: the send queue drains, is changed, and goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

using wire::Operation;

class DrainTest : public ::testing::TestWithParam<ibv_qp_type> {
 protected:
  verbs::QueuePair& qp() { return pair_.a.endpoint->qp; }
  absl::Status Modify(TestNode& node, ibv_qp_state state, int mask, ibv_qp_attr attr = {}) {
    PollContext context = node.context(pair_.now_ns);
    attr.qp_state = state;
    return node.endpoint->Modify(attr, mask | IBV_QP_STATE, context);
  }
  absl::Status Modify(ibv_qp_state state, int mask, const ibv_qp_attr& attr = {}) {
    return Modify(pair_.a, state, mask, attr);
  }
  absl::Status Drain() {
    ibv_qp_attr attr{};
    attr.en_sqd_async_notify = 1;
    return Modify(IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY, attr);
  }
  void Send(uint64_t wr_id, uint32_t bytes = 100) {
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, wr_id, pair_.a.memory.data(), bytes), 0);
  }
  void Receive(int count) {
    for (int i = 0; i < count; ++i) pair_.b.PostRecv(i, pair_.b.memory.data(), 1 << 16);
  }
  // Once, and only to who has asked for it.
  long DrainedEvents() {
    return std::count(pair_.a.events.begin(), pair_.a.events.end(), IBV_EVENT_SQ_DRAINED);
  }
  std::vector<uint64_t> Completed() {
    std::vector<uint64_t> ids;
    for (const ibv_wc& wc : pair_.a.Poll()) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      if ((wc.opcode & IBV_WC_RECV) == 0) ids.push_back(wc.wr_id);
    }
    return ids;
  }
  TestPair pair_{GetParam()};
};
class ConnectedDrainTest : public DrainTest {};
class ReliableDrainTest : public DrainTest {};

INSTANTIATE_TEST_SUITE_P(Types, ConnectedDrainTest, ::testing::Values(IBV_QPT_RC, IBV_QPT_UC));
INSTANTIATE_TEST_SUITE_P(Types, ReliableDrainTest, ::testing::Values(IBV_QPT_RC));
INSTANTIATE_TEST_SUITE_P(Types, DrainTest, ::testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD));

TEST_P(DrainTest, AnIdleQueuePairIsDrainedImmediately) {
  ASSERT_TRUE(Drain().ok());
  EXPECT_EQ(qp().state(), IBV_QPS_SQD);
  EXPECT_EQ(qp().attr.sq_draining, 0);
  pair_.RunToEnd();
  EXPECT_EQ(DrainedEvents(), 1);
  ASSERT_TRUE(Modify(IBV_QPS_RTS, 0).ok());
  ASSERT_TRUE(Modify(IBV_QPS_SQD, 0).ok());
  pair_.RunToEnd();
  EXPECT_EQ(DrainedEvents(), 1) << "not asked for";
}

TEST_P(ConnectedDrainTest, RequestsPostedInSqdWaitForRts) {
  Receive(4);
  ASSERT_TRUE(Drain().ok());
  Send(1);
  Send(2, 3000);
  pair_.RunToEnd();
  EXPECT_TRUE(Completed().empty());
  EXPECT_TRUE(pair_.b.Poll().empty());
  ASSERT_TRUE(Modify(IBV_QPS_RTS, 0).ok());
  pair_.RunToEnd();
  EXPECT_EQ(Completed(), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(pair_.b.Poll().size(), 2u);
}

TEST_P(ConnectedDrainTest, AStartedMessageIsFinishedAndNoOtherStarts) {
  Receive(4);
  Send(1, 50'000);  // more packets than a turn sends
  Send(2);
  PollContext context = pair_.a.context(pair_.now_ns);
  pair_.a.active.Pop();
  EXPECT_TRUE(pair_.a.endpoint->Transmit(context, 2));
  ASSERT_TRUE(Drain().ok());
  EXPECT_EQ(qp().attr.sq_draining, 1);
  EXPECT_EQ(Modify(IBV_QPS_RTS, 0).code(), absl::StatusCode::kFailedPrecondition);
  qp().Activate();
  pair_.RunToEnd();
  EXPECT_EQ(qp().attr.sq_draining, 0);
  EXPECT_EQ(DrainedEvents(), 1);
  EXPECT_EQ(Completed(), (std::vector<uint64_t>{1}));
  ASSERT_TRUE(Modify(IBV_QPS_RTS, 0).ok());
  pair_.RunToEnd();
  EXPECT_EQ(Completed(), (std::vector<uint64_t>{2}));
  EXPECT_EQ(pair_.b.Poll().size(), 2u);
}

// What was sent is sent again until it is answered; the peer's requests are served all the while.
TEST_P(ReliableDrainTest, LossesAreRepairedWhileDraining) {
  Receive(4);
  pair_.a.PostRecv(9, pair_.a.memory.data() + (1 << 18), 1 << 16);
  int lost = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    pair_.now_ns += 1000;
    const bool lose = from_a && packet.info->operation == Operation::kSend && ++lost <= 3;
    return lose ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  Send(1);
  pair_.Run();
  ASSERT_TRUE(Drain().ok());
  EXPECT_EQ(qp().attr.sq_draining, 1);
  Send(2);
  ASSERT_EQ(pair_.b.PostSend(IBV_WR_SEND, 1, pair_.b.memory.data(), 100), 0);
  pair_.RunToEnd();
  EXPECT_EQ(DrainedEvents(), 1);
  EXPECT_EQ(Completed(), (std::vector<uint64_t>{1}));
  EXPECT_EQ(pair_.b.Poll().size(), 2u) << "the receive, and its own send";
}

TEST_P(ReliableDrainTest, AShortTimeoutSetInSqdMakesEachMessageAskForAnAcknowledgement) {
  Receive(4);
  Send(1);
  pair_.RunToEnd();
  std::vector<bool> asked;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a) asked.push_back(packet.bth.ack_request);
    return PacketAction::kDeliver;
  };
  const auto send_with_timeout = [&](uint8_t timeout) {
    ibv_qp_attr attr{};
    attr.timeout = timeout;
    ASSERT_TRUE(Drain().ok());
    ASSERT_TRUE(Modify(IBV_QPS_SQD, IBV_QP_TIMEOUT, attr).ok());
    ASSERT_TRUE(Modify(IBV_QPS_RTS, 0).ok());
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 64, 0, 0, 0), 0);
    pair_.RunToEnd();
  };
  send_with_timeout(14);
  send_with_timeout(5);
  send_with_timeout(14);
  EXPECT_EQ(asked, (std::vector<bool>{false, true, false}));
}

TEST_P(ReliableDrainTest, PathAndRetriesCanBeModifiedInSqd) {
  Receive(4);
  Send(1);
  pair_.RunToEnd();
  ASSERT_TRUE(Drain().ok());
  // The peer moves to another address; its answers bear it at once.
  const Gid moved = Gid::FromIpv4(0xC0000263);
  qp().path.destination = moved;
  pair_.b.endpoint->qp.path.source = moved;
  ASSERT_TRUE(Modify(pair_.b, IBV_QPS_SQD, 0).ok());
  ibv_qp_attr same{};
  same.max_dest_rd_atomic = 16;
  ASSERT_TRUE(Modify(pair_.b, IBV_QPS_SQD, IBV_QP_AV | IBV_QP_MAX_DEST_RD_ATOMIC, same).ok());
  ibv_qp_attr attr{};
  attr.timeout = 10;
  attr.retry_cnt = 2;
  attr.rnr_retry = 1;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
  const int mask = IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
  ASSERT_TRUE(Modify(IBV_QPS_SQD, mask, attr).ok());
  ASSERT_TRUE(Modify(IBV_QPS_RTS, 0).ok());
  int to_new = 0, reads = 0, most_reads = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a) {
      EXPECT_EQ(packet.destination(), moved);
      ++to_new;
    }
    reads += packet.info->operation == Operation::kReadRequest;
    reads -= packet.info->operation == Operation::kReadResponse;
    most_reads = std::max(most_reads, reads);
    return PacketAction::kDeliver;
  };
  const auto remote = reinterpret_cast<uint64_t>(pair_.b.memory.data());
  for (uint64_t i = 2; i < 5; ++i) {
    pair_.a.PostSend(IBV_WR_RDMA_READ, i, pair_.a.memory.data(), 100, remote, pair_.b.key);
  }
  pair_.RunToEnd();
  EXPECT_EQ(Completed(), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(to_new, 3);
  EXPECT_EQ(most_reads, 1) << "the initiator depth is the new one";
  // The peer is gone: the new retry count holds.
  pair_.hook = [](bool, const wire::RocePacket&, rte_mbuf*) { return PacketAction::kDrop; };
  Send(5);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 3u);
  EXPECT_EQ(qp().state(), IBV_QPS_ERR);
}

TEST_P(ReliableDrainTest, AFailureEndsTheDraining) {
  Send(1);
  pair_.hook = [](bool, const wire::RocePacket&, rte_mbuf*) { return PacketAction::kDrop; };
  pair_.Run();
  ASSERT_TRUE(Drain().ok());
  pair_.RunToEnd();
  EXPECT_EQ(qp().state(), IBV_QPS_ERR);
  EXPECT_EQ(qp().attr.sq_draining, 0);
  EXPECT_EQ(DrainedEvents(), 0);
}

}  // namespace
}  // namespace pollux::transport
