#include "stack/transport/uc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

class UcTest : public ::testing::Test {
 protected:
  uint64_t Remote(uint32_t offset = 0) {
    return reinterpret_cast<uint64_t>(pair_.b.memory.data()) + offset;
  }
  // Drops frame number `n` (from 0) of those that a sends.
  void Lose(int n) {
    pair_.hook = [n, count = 0](bool, const wire::RocePacket&, rte_mbuf*) mutable {
      return count++ == n ? PacketAction::kDrop : PacketAction::kDeliver;
    };
  }
  TestPair pair_{IBV_QPT_UC};
};

TEST_F(UcTest, SendsOfEverySizeArrive) {
  for (const uint32_t size : {0u, 1u, 1023u, 1024u, 1025u, 4097u, 200'000u}) {
    for (uint32_t i = 0; i < size; ++i) pair_.a.memory[i] = static_cast<uint8_t>(i * 7 + size);
    pair_.b.PostRecv(9, pair_.b.memory.data(), 1 << 19);
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 5, pair_.a.memory.data(), size), 0);
    pair_.RunToEnd();
    const std::vector<ibv_wc> sent = pair_.a.Poll();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, IBV_WC_SUCCESS);
    const std::vector<ibv_wc> received = pair_.b.Poll();
    ASSERT_EQ(received.size(), 1u) << size;
    EXPECT_EQ(received[0].byte_len, size);
    EXPECT_EQ(received[0].src_qp, 0x111u);
    EXPECT_TRUE(
        std::equal(pair_.a.memory.begin(), pair_.a.memory.begin() + size, pair_.b.memory.begin()));
  }
}

TEST_F(UcTest, NoPacketIsAnswered) {
  pair_.hook = [](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    EXPECT_TRUE(from_a);
    return PacketAction::kDeliver;
  };
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 64);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 2u);
  EXPECT_EQ(pair_.b.counters.drop(Drop::kNoReceive), 1u);
  EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_RTS);
}

TEST_F(UcTest, SendAndWriteDeliverImmediateData) {
  for (int i = 0; i < 2; ++i) pair_.b.PostRecv(i, pair_.b.memory.data(), 4096);
  pair_.a.memory[4999] = 0x77;
  pair_.a.PostSend(IBV_WR_SEND_WITH_IMM, 1, pair_.a.memory.data(), 3000);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE_WITH_IMM, 2, pair_.a.memory.data(), 5000, Remote(10'000),
                   pair_.b.key);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(all[0].imm_data, 0x01020304u);
  EXPECT_EQ(all[1].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(all[1].byte_len, 5000u);
  EXPECT_EQ(pair_.b.memory[14'999], 0x77);
}

// Whichever packet of the second of three messages is lost, that message is, and no other; its
// receive serves the third.
TEST_F(UcTest, ALostPacketDropsItsMessageOnly) {
  for (int lost = 5; lost < 10; ++lost) {
    Lose(lost);
    for (uint64_t i = 1; i <= 2; ++i) pair_.b.PostRecv(i, pair_.b.memory.data() + 8192 * i, 8192);
    for (uint64_t i = 1; i <= 3; ++i) {
      std::memset(pair_.a.memory.data() + 8192 * i, static_cast<int>(i), 5000);
      pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data() + 8192 * i, 5000);
    }
    pair_.RunToEnd();
    EXPECT_EQ(pair_.a.Poll().size(), 3u);
    const std::vector<ibv_wc> all = pair_.b.Poll();
    ASSERT_EQ(all.size(), 2u) << "frame " << lost;
    EXPECT_EQ(all[0].wr_id, 1u);
    EXPECT_EQ(all[1].wr_id, 2u);
    EXPECT_EQ(pair_.b.memory[8192], 1);
    for (const uint32_t i : {0u, 1024u, 4999u}) EXPECT_EQ(pair_.b.memory[2 * 8192 + i], 3);
    EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_RTS);
  }
}

TEST_F(UcTest, ARefusedWriteIsDroppedAndCounted) {
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 5000, Remote((1 << 20) - 4999),
                   pair_.b.key);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 8, Remote(), pair_.b.key ^ 1);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.counters.drop(Drop::kRefused), 2u);
  EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_RTS);
  EXPECT_TRUE(std::all_of(pair_.b.memory.begin(), pair_.b.memory.end(),
                          [](uint8_t byte) { return byte == 0; }));
}

TEST_F(UcTest, AnOversizedMessageIsDroppedAndTheReceiveKept) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 2000);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 2001);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 2000);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.counters.drop(Drop::kReceiveTooSmall), 1u);
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].byte_len, 2000u);
}

TEST_F(UcTest, PostingReliableConnectionOperationsIsRefused) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                     IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_SEND_WITH_INV}) {
    EXPECT_EQ(pair_.a.PostSend(opcode, 1, pair_.a.memory.data(), 8, Remote(), pair_.b.key), EINVAL);
  }
}

TEST_F(UcTest, AFailingInvalidationCompletesInOrderAndEntersSqe) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 8);
  pair_.a.PostSend(IBV_WR_LOCAL_INV, 2, nullptr, 0, 0, 0xDEAD);
  pair_.a.PostSend(IBV_WR_SEND, 3, pair_.a.memory.data(), 8);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
  EXPECT_EQ(pair_.a.endpoint->qp.state(), IBV_QPS_SQE);
}

// A send error stops the send queue alone, and only until RTS is entered again.
TEST_F(UcTest, ASendErrorEntersSqeAndRtsLeavesIt) {
  const uint32_t good = pair_.a.key;
  pair_.a.key ^= 0x100;
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 8);
  pair_.a.key = good;
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 8);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.endpoint->qp.state(), IBV_QPS_SQE);
  EXPECT_EQ(pair_.a.PostSend(IBV_WR_SEND, 3, pair_.a.memory.data(), 8), 0);
  std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(all[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
  // It still receives.
  pair_.a.PostRecv(4, pair_.a.memory.data() + 1024, 64);
  pair_.b.PostSend(IBV_WR_SEND, 1, pair_.b.memory.data(), 8);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 1u);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  PollContext context = pair_.a.context(pair_.now_ns);
  ASSERT_TRUE(pair_.a.endpoint->Modify(attr, IBV_QP_STATE, context).ok());
  pair_.b.PostRecv(5, pair_.b.memory.data() + 1024, 64);
  pair_.a.PostSend(IBV_WR_SEND, 5, pair_.a.memory.data(), 8);
  pair_.RunToEnd();
  all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
}

TEST_F(UcTest, PacketsFromAnotherAddressAreDropped) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.b.endpoint->qp.path.destination = Gid::FromIpv4(0xC0000299);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 64);
  pair_.Run();
  EXPECT_EQ(pair_.b.counters.drop(Drop::kBadAddress), 1u);
}

}  // namespace
}  // namespace pollux::transport
