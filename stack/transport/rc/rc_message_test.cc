// SENDs and WRITEs over a reliable connection beside plain ones: invalidation, solicited events,
// inline data; and what NAKs mean.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "stack/transport/test_pair.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

using wire::Operation;

class RcMessageTest : public ::testing::Test {
 protected:
  uint64_t Remote(uint32_t offset = 0) {
    return reinterpret_cast<uint64_t>(pair_.b.memory.data()) + offset;
  }
  // A region of b that a peer may invalidate.
  uint32_t MapAtB(uint32_t length) {
    const uint32_t key = pair_.b.regions.AllocFast(&pair_.b.pd, length)->key ^ 1;
    EXPECT_TRUE(pair_.b.regions.Map(pair_.b.pd,
                                    {.key = key,
                                     .address = Remote(),
                                     .length = length,
                                     .iova = Remote(),
                                     .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE}));
    return key;
  }
  // How often b was told of `event`.
  int64_t Events(ibv_event_type event) {
    return std::count(pair_.b.events.begin(), pair_.b.events.end(), event);
  }
  TestPair pair_;
};

TEST_F(RcMessageTest, SendWithInvalidateInvalidatesTheKey) {
  for (const uint32_t size : {0u, 10u, 5000u}) {
    const uint32_t key = MapAtB(64);
    pair_.b.PostRecv(1, pair_.b.memory.data() + 1000, 5000);
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND_WITH_INV, 1, pair_.a.memory.data(), size, 0, key), 0);
    pair_.RunToEnd();
    ASSERT_EQ(pair_.a.Poll().size(), 1u);
    const std::vector<ibv_wc> all = pair_.b.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[0].byte_len, size);
    EXPECT_EQ(all[0].wc_flags, unsigned{IBV_WC_WITH_INV});
    EXPECT_EQ(all[0].invalidated_rkey, key);
    EXPECT_FALSE(pair_.b.regions.Find(key)->mapped);
    ASSERT_TRUE(pair_.b.regions.Deregister(key).ok());
  }
}

TEST_F(RcMessageTest, InvalidatedKeyIsRefused) {
  const uint32_t key = MapAtB(64);
  pair_.b.PostRecv(1, pair_.b.memory.data() + 1000, 64);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 8, Remote(), key);
  pair_.a.PostSend(IBV_WR_SEND_WITH_INV, 2, pair_.a.memory.data(), 8, 0, key);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 3, pair_.a.memory.data(), 8, Remote(), key);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[2].status, IBV_WC_REM_ACCESS_ERR);
}

// The specification has it end the queue pair by an error of its own and sends no NAK for it; rxe
// acknowledges the message, so that its sender does not repeat it in vain.
TEST_F(RcMessageTest, AFailedInvalidationIsALocalErrorWithoutANak) {
  int naks = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    naks +=
        !from_a && packet.info->operation == Operation::kAck && wire::IsNak(packet.aeth().syndrome);
    return PacketAction::kDeliver;
  };
  for (uint64_t i = 1; i <= 3; ++i) pair_.b.PostRecv(i, pair_.b.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 8);
  pair_.a.PostSend(IBV_WR_SEND_WITH_INV, 2, pair_.a.memory.data(), 8, 0, pair_.b.key);
  pair_.RunToEnd();
  EXPECT_EQ(naks, 0);
  EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(Events(IBV_EVENT_QP_FATAL), 1);
  const std::vector<ibv_wc> received = pair_.b.Poll();
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(received[1].status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(received[2].status, IBV_WC_WR_FLUSH_ERR);
  const std::vector<ibv_wc> sent = pair_.a.Poll();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].status, IBV_WC_SUCCESS) << "what came before is acknowledged";
  EXPECT_EQ(sent[1].status, IBV_WC_SUCCESS) << "the message has arrived";
  pair_.a.PostSend(IBV_WR_SEND, 3, pair_.a.memory.data(), 8);
  pair_.RunToEnd();
  const std::vector<ibv_wc> late = pair_.a.Poll();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].status, IBV_WC_RETRY_EXC_ERR) << "nobody answers any more";
  EXPECT_NE(pair_.b.regions.Find(pair_.b.key), nullptr) << "registered by a call: it stays";
}

TEST_F(RcMessageTest, SolicitedIsSetOnlyWhereAReceiveCompletes) {
  std::vector<std::pair<Operation, bool>> seen;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a) seen.emplace_back(packet.info->operation, packet.bth.solicited);
    return PacketAction::kDeliver;
  };
  constexpr int kFlags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
  for (int i = 0; i < 2; ++i) pair_.b.PostRecv(i, pair_.b.memory.data(), 4096);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 2000, 0, 0, kFlags);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 8, Remote(), pair_.b.key, kFlags);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE_WITH_IMM, 3, pair_.a.memory.data(), 2000, Remote(),
                   pair_.b.key, kFlags);
  pair_.RunToEnd();
  const std::vector<std::pair<Operation, bool>> expected = {{Operation::kSend, false},
                                                            {Operation::kSend, true},
                                                            {Operation::kWrite, false},
                                                            {Operation::kWrite, false},
                                                            {Operation::kWrite, true}};
  EXPECT_EQ(seen, expected);
}

TEST_F(RcMessageTest, InlineDataOfSeveralElementsIsCopiedAtPost) {
  char words[] = "onetwothree";
  const auto base = reinterpret_cast<uint64_t>(words);
  // No key: inline data needs none.
  ibv_sge list[] = {{base, 3, 0}, {base + 3, 3, 0}, {base + 6, 5, 0}};
  ibv_send_wr wr{};
  wr.sg_list = list;
  wr.num_sge = 3;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  ASSERT_EQ(pair_.a.endpoint->qp.PostSend(&wr, nullptr), 0);
  std::memset(words, 'x', sizeof words);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
  EXPECT_EQ(std::memcmp(pair_.b.memory.data(), "onetwothree", 11), 0);
}

// Elements that begin and end anywhere, in packets of the whole path MTU and in shorter ones.
TEST_F(RcMessageTest, LongMessagesAreGatheredFromSeveralElements) {
  constexpr uint32_t kAt = 100'000;  // from here on, in b's memory
  Random random(3);
  for (uint8_t& byte : pair_.a.memory) byte = static_cast<uint8_t>(random.Next32());
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE}) {
    for (uint32_t round = 0; round < 50; ++round) {
      ibv_sge list[3];
      std::vector<uint8_t> expected;
      for (ibv_sge& element : list) {
        const uint64_t at = random.Below(10'000);
        const auto length = static_cast<uint32_t>(random.Below(2000));
        element = {reinterpret_cast<uint64_t>(pair_.a.memory.data()) + at, length, pair_.a.key};
        const auto begin = pair_.a.memory.begin() + static_cast<ptrdiff_t>(at);
        expected.insert(expected.end(), begin, begin + length);
      }
      expected.push_back(0);  // nothing beyond it is written
      std::fill_n(pair_.b.memory.begin() + kAt, expected.size(), uint8_t{0});
      ibv_send_wr wr{};
      wr.sg_list = list;
      wr.num_sge = std::size(list);
      wr.opcode = opcode;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma = {.remote_addr = Remote(kAt), .rkey = pair_.b.key};
      if (opcode == IBV_WR_SEND) pair_.b.PostRecv(1, pair_.b.memory.data() + kAt, 10'000);
      ASSERT_EQ(pair_.a.endpoint->qp.PostSend(&wr, nullptr), 0);
      pair_.RunToEnd();
      const std::vector<ibv_wc> all = pair_.a.Poll();
      ASSERT_EQ(all.size(), 1u);
      ASSERT_EQ(all[0].status, IBV_WC_SUCCESS);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), pair_.b.memory.begin() + kAt));
    }
  }
  EXPECT_EQ(pair_.b.counters.drop(Drop::kBadIcrc), 0u);
}

TEST_F(RcMessageTest, AccessNotEnabledInTheQueuePairIsRefused) {
  pair_.b.endpoint->qp.attr.qp_access_flags &= ~IBV_ACCESS_REMOTE_WRITE;
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 8, Remote(), pair_.b.key);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(Events(IBV_EVENT_QP_REQ_ERR), 1);
}

// Linux rxe says 0x63 where the receive buffer is too small, others 0x61.
TEST(RcNakTest, EachNakCodeHasItsStatus) {
  const struct {
    uint8_t syndrome;
    ibv_wc_status status;
  } kCodes[] = {{wire::kNakInvalidRequest, IBV_WC_REM_INV_REQ_ERR},
                {wire::kNakRemoteAccess, IBV_WC_REM_ACCESS_ERR},
                {wire::kNakRemoteOperational, IBV_WC_REM_OP_ERR}};
  for (const auto& code : kCodes) {
    TestPair pair;
    pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (from_a) return PacketAction::kDeliver;
      uint8_t* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      bytes[packet.ext_offset] = code.syndrome;
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
      return PacketAction::kDeliver;
    };
    pair.b.PostRecv(1, pair.b.memory.data(), 64);
    pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 8);
    pair.a.PostSend(IBV_WR_SEND, 2, pair.a.memory.data(), 8);
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 2u);
    // The NAK carries the PSN of the last that was executed: what lies before it succeeded.
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[1].status, code.status) << int{code.syndrome};
    EXPECT_EQ(pair.a.endpoint->qp.state(), IBV_QPS_ERR);
  }
}

// Both ways: the responder's timer goes into the NAK, the requester waits as long as it says.
TEST(RcRnrTimerTest, EveryRnrTimerCodeIsSentAndObeyed) {
  for (uint8_t code = 0; code < 32; ++code) {
    ibv_qp_attr attr = TestPair::DefaultAttr();
    attr.min_rnr_timer = code;
    TestPair pair(IBV_QPT_RC, &attr);
    std::vector<uint8_t> syndromes;
    pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
      if (!from_a) syndromes.push_back(packet.aeth().syndrome);
      return PacketAction::kDeliver;
    };
    const uint64_t start = pair.now_ns;
    pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 8);
    pair.Run();
    ASSERT_EQ(syndromes, std::vector<uint8_t>{static_cast<uint8_t>(wire::kRnrNak | code)});
    pair.b.PostRecv(1, pair.b.memory.data(), 64);
    ASSERT_TRUE(pair.Wait());
    EXPECT_EQ(pair.now_ns - start, 1000ull * wire::RnrDelayUs(code)) << int{code};
    EXPECT_EQ(pair.a.Poll().size(), 1u) << int{code};
  }
}

}  // namespace
}  // namespace pollux::transport
