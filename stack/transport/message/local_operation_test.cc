// Bind, fast registration and local invalidation in the order of a send queue.
#include "stack/transport/message/local_operation.h"

#include <gtest/gtest.h>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

class LocalOperationTest : public ::testing::Test {
 protected:
  uint64_t Address(TestNode& node, uint32_t offset = 0) {
    return reinterpret_cast<uint64_t>(node.memory.data()) + offset;
  }
  int PostMap(TestNode& node, uint64_t wr_id, uint32_t key, uint32_t offset, uint32_t length) {
    verbs::RegisterWorkRequest wr{};
    wr.wr_id = wr_id;
    wr.opcode = verbs::kWrRegMr;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.mapping = {.key = key,
                  .address = Address(node, offset),
                  .length = length,
                  .iova = Address(node, offset),
                  .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
    return node.endpoint->qp.PostSend(&wr, nullptr);
  }
  int PostBind(TestNode& node, uint64_t wr_id, uint32_t key, uint32_t offset, uint32_t length) {
    ibv_mr region{};
    region.lkey = node.key;
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.rkey = key;
    wr.bind_mw.bind_info = {.mr = &region,
                            .addr = Address(node, offset),
                            .length = length,
                            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return node.endpoint->qp.PostSend(&wr, nullptr);
  }
  TestPair pair_;
};

TEST_F(LocalOperationTest, AChainOfMapUseAndInvalidateSurvivesLoss) {
  for (int lost = 0; lost < 12; ++lost) {
    const uint32_t key = pair_.a.regions.AllocFast(&pair_.a.pd, 4096)->key ^ 1;
    int count = 0;
    pair_.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
      return count++ == lost ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    pair_.b.PostRecv(1, pair_.b.memory.data(), 4096);
    pair_.a.memory[0] = static_cast<uint8_t>(lost);
    ASSERT_EQ(PostMap(pair_.a, 1, key, 0, 4096), 0);
    const uint32_t registered = pair_.a.key;
    pair_.a.key = key;
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 4096), 0);
    pair_.a.key = registered;
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_LOCAL_INV, 3, nullptr, 0, 0, key), 0);
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_RDMA_WRITE, 4, pair_.a.memory.data(), 8,
                               Address(pair_.b, 8192), pair_.b.key),
              0);
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(all[i].wr_id, i + 1);
      EXPECT_EQ(all[i].status, IBV_WC_SUCCESS) << "frame " << lost << ", request " << i + 1;
    }
    EXPECT_EQ(all[0].opcode, verbs::kWcRegMr);
    EXPECT_EQ(all[0].opcode & IBV_WC_RECV, 0);
    EXPECT_EQ(all[2].opcode, IBV_WC_LOCAL_INV);
    EXPECT_EQ(pair_.b.memory[0], lost);
    EXPECT_FALSE(pair_.a.regions.Find(key)->mapped);
    ASSERT_EQ(pair_.b.Poll().size(), 1u);
    ASSERT_TRUE(pair_.a.regions.Deregister(key).ok());
  }
  EXPECT_GT(pair_.a.counters.retransmitted_pkts, 0u);
}

TEST_F(LocalOperationTest, ThePeerWritesThroughABoundWindow) {
  const uint32_t key = pair_.b.regions.AllocWindow(&pair_.b.pd, IBV_MW_TYPE_2)->key ^ 1;
  ASSERT_EQ(PostBind(pair_.b, 1, key, 64, 32), 0);
  pair_.RunToEnd();
  const std::vector<ibv_wc> bound = pair_.b.Poll();
  ASSERT_EQ(bound.size(), 1u);
  EXPECT_EQ(bound[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(bound[0].opcode, IBV_WC_BIND_MW);
  pair_.a.memory[0] = 0x5A;
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 32, Address(pair_.b, 64), key);
  pair_.RunToEnd();
  ASSERT_EQ(pair_.a.Poll().size(), 1u);
  EXPECT_EQ(pair_.b.memory[64], 0x5A);
  // The peer takes it back by its message, and is refused from then on.
  pair_.b.PostRecv(2, pair_.b.memory.data() + 1024, 64);
  pair_.a.PostSend(IBV_WR_SEND_WITH_INV, 2, pair_.a.memory.data(), 8, 0, key);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 3, pair_.a.memory.data(), 1, Address(pair_.b, 64), key);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(LocalOperationTest, AFailingOperationCompletesInOrder) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 5000);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 5000);
  pair_.a.PostSend(IBV_WR_LOCAL_INV, 2, nullptr, 0, 0, 0xDEAD);
  pair_.a.PostSend(IBV_WR_SEND, 3, pair_.a.memory.data(), 8);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair_.a.endpoint->qp.state(), IBV_QPS_ERR);
}

// Its completion is lost, and with it the queue pair: what was flushed behind it is not sent.
TEST_F(LocalOperationTest, NothingIsSentAfterALostCompletion) {
  ASSERT_TRUE(pair_.a.cq.Resize(1).ok());
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 8, Address(pair_.b, 8192),
                   pair_.b.key);
  pair_.RunToEnd();
  ASSERT_EQ(pair_.a.cq.size(), 1u);
  int sent = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    sent += from_a;
    return PacketAction::kDeliver;
  };
  const uint32_t key = pair_.a.regions.AllocFast(&pair_.a.pd, 4096)->key ^ 1;
  ASSERT_EQ(PostMap(pair_.a, 2, key, 0, 4096), 0);
  pair_.b.PostRecv(1, pair_.b.memory.data(), 4096);
  pair_.a.PostSend(IBV_WR_SEND, 3, pair_.a.memory.data(), 8);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.endpoint->qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(sent, 0);
}

TEST_F(LocalOperationTest, ABindBeyondTheRegionFails) {
  const uint32_t key = pair_.b.regions.AllocWindow(&pair_.b.pd, IBV_MW_TYPE_2)->key ^ 1;
  PostBind(pair_.b, 1, key, (1 << 20) - 31, 32);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_MW_BIND_ERR);
}

TEST_F(LocalOperationTest, LocalOperationsWithDataAreRefused) {
  ibv_sge sge{Address(pair_.a), 8, pair_.a.key};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  EXPECT_EQ(pair_.a.endpoint->qp.PostSend(&wr, nullptr), EINVAL);
}

}  // namespace
}  // namespace pollux::transport
