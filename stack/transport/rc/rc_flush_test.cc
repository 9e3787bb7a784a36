// FLUSH over a reliable connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "stack/transport/test_pair.h"
#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

constexpr uint64_t kBytes = 3000;

// What a FLUSH names: by default a range of b's memory that spans several packets.
struct Target {
  uint64_t address = 0;
  uint32_t key = 0;
  uint64_t length = kBytes;
  wire::Feth feth = {.placement = wire::kFlushGlobal, .selectivity = wire::kFlushRange};
};

Target MemoryOf(TestNode& node) {
  return {.address = reinterpret_cast<uint64_t>(node.memory.data()), .key = node.key};
}

int Post(TestNode& node, uint64_t wr_id, const Target& target) {
  verbs::FlushWorkRequest wr{};
  wr.wr_id = wr_id;
  wr.opcode = verbs::kWrFlush;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = target.address;
  wr.wr.rdma.rkey = target.key;
  wr.length = target.length;
  wr.placement = target.feth.placement;
  wr.selectivity = target.feth.selectivity;
  return node.endpoint->qp.PostSend(&wr, nullptr);
}

class RcFlushTest : public ::testing::Test {
 protected:
  ibv_wc TheCompletion() {
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? ibv_wc{.status = IBV_WC_GENERAL_ERR} : all[0];
  }
  ibv_wc_status Flush(const Target& target) {
    EXPECT_EQ(Post(pair_.a, 1, target), 0);
    return TheCompletion().status;
  }
  void ExpectFailure(const Target& target, ibv_wc_status status, ibv_event_type event) {
    EXPECT_EQ(Flush(target), status);
    EXPECT_EQ(std::count(pair_.b.events.begin(), pair_.b.events.end(), event), 1);
  }
  // The first 64 bytes of b's memory under a key of their own.
  Target Registered(int access) {
    Target target = MemoryOf(pair_.b);
    target.length = 64;
    target.key = pair_.b.regions.Register(&pair_.b.pd, pair_.b.memory.data(), 64, access)->key;
    return target;
  }
  TestPair pair_;
};

TEST_F(RcFlushTest, IsAnsweredByAReadResponseAfterEarlierWrites) {
  int answers = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a && packet.bth.opcode == wire::Opcode::kRcFlush) {
      EXPECT_EQ(packet.feth(), (wire::Feth{wire::kFlushGlobal, wire::kFlushRange}));
      EXPECT_EQ(packet.reth().address, MemoryOf(pair_.b).address);
      EXPECT_EQ(packet.reth().rkey, pair_.b.key);
      EXPECT_EQ(packet.reth().length, kBytes);
    } else if (!from_a && packet.bth.opcode != wire::Opcode::kRcAcknowledge) {
      EXPECT_EQ(packet.bth.opcode, wire::Opcode::kRcReadResponseOnly);
      EXPECT_EQ(packet.payload_length, 0u);
      EXPECT_EQ(pair_.b.memory[kBytes - 1], 0xAA) << "written before";
      ++answers;
    }
    return PacketAction::kDeliver;
  };
  std::fill_n(pair_.a.memory.begin(), kBytes, 0xAA);
  const Target target = MemoryOf(pair_.b);
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_RDMA_WRITE, 0, pair_.a.memory.data(), kBytes, target.address,
                             target.key, /*flags=*/0),
            0);
  ASSERT_EQ(Post(pair_.a, 1, target), 0);
  const ibv_wc wc = TheCompletion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, verbs::kWcFlush);
  EXPECT_EQ(wc.wr_id, 1u);
  EXPECT_EQ(answers, 1);
}

// Each single frame is lost once, in turn.
TEST_F(RcFlushTest, SurvivesTheLossOfAnyFrame) {
  const Target target = MemoryOf(pair_.b);
  for (uint64_t lost = 0; lost < 12; ++lost) {
    uint64_t count = 0;
    pair_.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
      return count++ == lost ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    for (uint64_t i = 0; i < 6; i += 2) {
      pair_.a.PostSend(IBV_WR_RDMA_WRITE, i, pair_.a.memory.data(), 8, target.address, target.key);
      ASSERT_EQ(Post(pair_.a, i + 1, target), 0);
    }
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 6u) << "frame " << lost;
    for (uint64_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i].status, IBV_WC_SUCCESS) << "frame " << lost;
      ASSERT_EQ(all[i].wr_id, i) << "frame " << lost;
    }
  }
  EXPECT_GT(pair_.b.counters.duplicate_request, 0u);
}

// Linux's rxe does not repeat a lost response to a FLUSH.
TEST_F(RcFlushTest, TheAnswerToALaterRequestCompletesOneWithoutResponse) {
  pair_.hook = [](bool, const wire::RocePacket& packet, rte_mbuf*) {
    return packet.bth.opcode == wire::Opcode::kRcReadResponseOnly ? PacketAction::kDrop
                                                                  : PacketAction::kDeliver;
  };
  const Target target = MemoryOf(pair_.b);
  ASSERT_EQ(Post(pair_.a, 0, target), 0);
  ASSERT_EQ(Post(pair_.a, 1, target), 0);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 8, target.address, target.key);
  pair_.Run();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 3u) << "without waiting for a time-out";
  for (uint64_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[i].wr_id, i);
  }
  EXPECT_EQ(pair_.a.counters.retransmitted_pkts, 0u);
}

TEST_F(RcFlushTest, AWholeRegionNeedsNoRange) {
  Target target = Registered(memory::kAccessFlushGlobal);
  target.feth.selectivity = wire::kFlushRegion;
  target.address = 0;
  target.length = 0;
  EXPECT_EQ(Flush(target), IBV_WC_SUCCESS);
  target.key ^= 1;
  ExpectFailure(target, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcFlushTest, AnEmptyRangeNeedsAKeyToo) {
  Target target = Registered(memory::kAccessFlushGlobal);
  target.length = 0;
  EXPECT_EQ(Flush(target), IBV_WC_SUCCESS);
  target.key ^= 1;
  ExpectFailure(target, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcFlushTest, ARangePartlyBeyondTheRegionIsRefused) {
  Target target = Registered(memory::kAccessFlushGlobal);
  EXPECT_EQ(Flush(target), IBV_WC_SUCCESS);
  ++target.length;
  ExpectFailure(target, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

constexpr int kAllButFlush = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

TEST_F(RcFlushTest, ARegionWithoutTheRightIsRefused) {
  ExpectFailure(Registered(kAllButFlush), IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcFlushTest, AnEmptyRangeWithoutTheRightIsRefused) {
  Target target = Registered(kAllButFlush);
  target.length = 0;
  ExpectFailure(target, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcFlushTest, AWholeRegionWithoutTheRightIsRefused) {
  Target target = Registered(kAllButFlush);
  target.feth.selectivity = wire::kFlushRegion;
  ExpectFailure(target, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcFlushTest, AQueuePairWithoutTheRightIsRefused) {
  pair_.b.endpoint->qp.attr.qp_access_flags &= ~static_cast<unsigned>(memory::kAccessFlushGlobal);
  ExpectFailure(MemoryOf(pair_.b), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

// Even if the queue pair allows it: no memory is persistent.
TEST_F(RcFlushTest, APersistentOneIsRefused) {
  pair_.b.endpoint->qp.attr.qp_access_flags |= unsigned{memory::kAccessFlushPersistent};
  const uint32_t key =
      pair_.b.regions
          .RegisterFast(&pair_.b.pd, pair_.b.memory.data(), 64, memory::kAccessFlushPersistent)
          ->key;
  Target target = MemoryOf(pair_.b);
  target.key = key;
  target.length = 64;
  target.feth.placement = wire::kFlushPersistent;
  ExpectFailure(target, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

// A peer may send requests that this side refuses to post.
TEST(RcFlushForgeryTest, UnknownPlacementsAndSelectivitiesAreRefused) {
  constexpr wire::Feth kUnknown[] = {{.placement = 0, .selectivity = wire::kFlushRange},
                                     {.placement = 5, .selectivity = wire::kFlushRange},
                                     {.placement = 1, .selectivity = 2}};
  for (const wire::Feth& feth : kUnknown) {
    TestPair pair;
    pair.b.endpoint->qp.attr.qp_access_flags = ~0u;
    pair.hook = [&feth](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (!from_a) return PacketAction::kDeliver;
      auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      wire::EmitFeth(feth, bytes + (packet.ext(wire::kHasFeth) - bytes));
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
      return PacketAction::kDeliver;
    };
    ASSERT_EQ(Post(pair.a, 1, MemoryOf(pair.b)), 0);
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, IBV_WC_REM_INV_REQ_ERR) << int{feth.placement};
  }
}

// The limit is for ranges: of a whole region the length does not count.
TEST(RcFlushForgeryTest, ARangeLongerThanAnyMessageIsRefused) {
  for (const uint8_t selectivity : {wire::kFlushRange, wire::kFlushRegion}) {
    TestPair pair;
    pair.hook = [](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (!from_a) return PacketAction::kDeliver;
      auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      wire::Reth reth = packet.reth();
      reth.length = verbs::kMaxMessage + 1;
      wire::EmitReth(reth, bytes + (packet.ext(wire::kHasReth) - bytes));
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
      return PacketAction::kDeliver;
    };
    Target target = MemoryOf(pair.b);
    target.feth.selectivity = selectivity;
    ASSERT_EQ(Post(pair.a, 1, target), 0);
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status,
              selectivity == wire::kFlushRange ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS);
  }
}

// As Linux's rxe sends them.
TEST(RcFlushResourcesTest, OnesBeyondTheResponderResourcesAreAskedForAgain) {
  constexpr uint64_t kCount = 12;
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.max_dest_rd_atomic = 2;
  TestPair pair(IBV_QPT_RC, &attr);
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(Post(pair.a, i, MemoryOf(pair.b)), 0);
  pair.Run();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), kCount) << "without waiting for a time-out";
  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(all[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[i].wr_id, i);
  }
  EXPECT_GT(pair.b.counters.sent_seq_nak, 0u);
}

TEST(RcFlushResourcesTest, WithoutResponderResourcesTheyAreRefused) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.max_dest_rd_atomic = 0;
  TestPair pair(IBV_QPT_RC, &attr);
  ASSERT_EQ(Post(pair.a, 1, MemoryOf(pair.b)), 0);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(RcFlushTypeTest, UnreliableConnectionsDoNotHaveIt) {
  TestPair uc(IBV_QPT_UC);
  EXPECT_EQ(Post(uc.a, 1, MemoryOf(uc.b)), EINVAL);
}

}  // namespace
}  // namespace pollux::transport
