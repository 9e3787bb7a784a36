// ATOMIC WRITE over a reliable connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "stack/transport/test_pair.h"
#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

using wire::Operation;

class RcAtomicWriteTest : public ::testing::Test {
 protected:
  static constexpr unsigned kFlags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;

  RcAtomicWriteTest() { Store(pair_.b, 7); }
  uint64_t Remote(uint32_t offset = 0) {
    return reinterpret_cast<uint64_t>(pair_.b.memory.data()) + offset;
  }
  static uint64_t Load(const TestNode& node, uint32_t offset = 0) {
    uint64_t value;
    std::memcpy(&value, node.memory.data() + offset, sizeof value);
    return value;
  }
  static void Store(TestNode& node, uint64_t value) {
    std::memcpy(node.memory.data(), &value, sizeof value);
  }
  int Post(uint64_t wr_id, uint64_t value, uint64_t remote, uint32_t rkey) {
    return pair_.a.PostSend(IBV_WR_ATOMIC_WRITE, wr_id, &value, sizeof value, remote, rkey, kFlags);
  }
  int Post(uint64_t wr_id, uint64_t value) { return Post(wr_id, value, Remote(), pair_.b.key); }
  ibv_wc TheCompletion() {
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? ibv_wc{.status = IBV_WC_GENERAL_ERR} : all[0];
  }
  void ExpectFailure(ibv_wc_status status, ibv_event_type event) {
    EXPECT_EQ(TheCompletion().status, status);
    EXPECT_EQ(std::count(pair_.b.events.begin(), pair_.b.events.end(), event), 1);
    EXPECT_EQ(Load(pair_.b), 7u) << "untouched";
  }
  TestPair pair_;
};

TEST_F(RcAtomicWriteTest, WritesEightBytesAndIsAnsweredByAReadResponse) {
  int answers = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a) {
      EXPECT_EQ(packet.info->operation, Operation::kAtomicWrite);
      EXPECT_EQ(packet.payload_length, 8u);
      EXPECT_EQ(packet.reth().length, 8u);
    } else {
      EXPECT_EQ(packet.bth.opcode, wire::Opcode::kRcReadResponseOnly);
      EXPECT_EQ(packet.payload_length, 0u);
      ++answers;
    }
    return PacketAction::kDeliver;
  };
  ASSERT_EQ(Post(1, 0x0123456789ABCDEF), 0);
  const ibv_wc wc = TheCompletion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(Load(pair_.b), 0x0123456789ABCDEFu);
  EXPECT_EQ(answers, 1);
}

// Each single frame is lost once, in turn: all are executed in order.
TEST_F(RcAtomicWriteTest, SurvivesTheLossOfAnyFrame) {
  for (uint64_t lost = 0; lost < 12; ++lost) {
    uint64_t count = 0;
    pair_.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
      return count++ == lost ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    for (uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(Post(i, 100 * lost + i), 0);
    pair_.a.PostSend(IBV_WR_RDMA_READ, 5, pair_.a.memory.data(), 8, Remote(), pair_.b.key);
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 5u) << "frame " << lost;
    for (const ibv_wc& wc : all) ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << "frame " << lost;
    EXPECT_EQ(Load(pair_.a), 100 * lost + 4) << "frame " << lost;
  }
  EXPECT_GT(pair_.b.counters.duplicate_request, 0u);
}

// A late copy must not undo newer writes.
TEST_F(RcAtomicWriteTest, ADuplicateIsAnsweredAndNotExecuted) {
  bool lose = true;
  pair_.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    if (from_a || !lose) return PacketAction::kDeliver;
    lose = false;
    Store(pair_.b, 8);  // after the execution, before the duplicate
    return PacketAction::kDrop;
  };
  ASSERT_EQ(Post(1, 5), 0);
  EXPECT_EQ(TheCompletion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair_.b.counters.duplicate_request, 1u);
  EXPECT_EQ(Load(pair_.b), 8u);
}

TEST_F(RcAtomicWriteTest, PostingTakesEightInlineBytesForAnAlignedAddress) {
  uint64_t value = 1;
  const auto post = [&](uint32_t bytes, uint64_t remote, unsigned flags) {
    return pair_.a.PostSend(IBV_WR_ATOMIC_WRITE, 1, &value, bytes, remote, pair_.b.key, flags);
  };
  EXPECT_EQ(post(8, Remote(), IBV_SEND_SIGNALED), EINVAL) << "not inline";
  for (const uint32_t bytes : {0u, 4u, 9u}) EXPECT_EQ(post(bytes, Remote(), kFlags), EINVAL);
  for (const uint32_t offset : {1u, 4u}) EXPECT_EQ(post(8, Remote(offset), kFlags), EINVAL);
  EXPECT_EQ(post(8, Remote(), kFlags), 0);
  value = 2;  // the bytes are taken when it is posted
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 1u);
  EXPECT_EQ(Load(pair_.b), 1u);
}

TEST_F(RcAtomicWriteTest, ARegionWithoutRemoteWriteIsRefused) {
  const uint32_t key =
      pair_.b.regions
          .Register(&pair_.b.pd, pair_.b.memory.data(), 64,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
          ->key;
  ASSERT_EQ(Post(1, 5, Remote(), key), 0);
  ExpectFailure(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcAtomicWriteTest, OnePartlyBeyondTheRegionIsRefused) {
  const uint32_t key = pair_.b.regions
                           .Register(&pair_.b.pd, pair_.b.memory.data(), 12,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
                           ->key;
  ASSERT_EQ(Post(1, 5, Remote(8), key), 0);
  ExpectFailure(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcAtomicWriteTest, AQueuePairWithoutRemoteWriteIsRefused) {
  pair_.b.endpoint->qp.attr.qp_access_flags &= ~IBV_ACCESS_REMOTE_WRITE;
  ASSERT_EQ(Post(1, 5), 0);
  ExpectFailure(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcAtomicWriteTest, AnAlignedIovaOfMisalignedMemoryIsRefused) {
  const uint32_t key = pair_.b.regions
                           .RegisterIova(&pair_.b.pd, pair_.b.memory.data() + 4, 64, 0x1000,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
                           ->key;
  ASSERT_EQ(Post(1, 5, 0x1000, key), 0);
  ExpectFailure(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

// A peer may send requests that this side refuses to post. `change` alters the request; the last
// `pad` bytes of its payload become padding.
void ExpectInvalidRequest(void (*change)(wire::Reth& reth), uint8_t pad = 0) {
  TestPair pair;
  pair.hook = [change, pad](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (!from_a) return PacketAction::kDeliver;
    auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    wire::Reth reth = packet.reth();
    change(reth);
    uint8_t* ext = bytes + (packet.ext(wire::kHasReth) - bytes);
    wire::EmitReth(reth, ext);
    ext[wire::bth_fields::kFlags - wire::kBthBytes] |= pad << wire::bth_fields::kPadShift;
    wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    return PacketAction::kDeliver;
  };
  uint64_t value = 5;
  ASSERT_EQ(pair.a.PostSend(IBV_WR_ATOMIC_WRITE, 1, &value, sizeof value,
                            reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key,
                            IBV_SEND_SIGNALED | IBV_SEND_INLINE),
            0);
  const std::vector<uint8_t> before(pair.b.memory.begin(), pair.b.memory.begin() + 16);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), pair.b.memory.begin()));
}

TEST(RcAtomicWriteRequestTest, AMisalignedAddressIsRefused) {
  ExpectInvalidRequest([](wire::Reth& reth) { reth.address += 4; });
}

TEST(RcAtomicWriteRequestTest, AnotherLengthIsRefused) {
  ExpectInvalidRequest([](wire::Reth& reth) { reth.length = 12; });
}

TEST(RcAtomicWriteRequestTest, ShorterPayloadThanItSaysIsRefused) {
  ExpectInvalidRequest([](wire::Reth&) {}, 3);
}

TEST(RcAtomicWriteRequestTest, UnreliableConnectionsDoNotHaveIt) {
  TestPair uc(IBV_QPT_UC);
  uint64_t value = 1;
  EXPECT_EQ(uc.a.PostSend(IBV_WR_ATOMIC_WRITE, 1, &value, sizeof value,
                          reinterpret_cast<uint64_t>(uc.b.memory.data()), uc.b.key,
                          IBV_SEND_SIGNALED | IBV_SEND_INLINE),
            EINVAL);
}

}  // namespace
}  // namespace pollux::transport
