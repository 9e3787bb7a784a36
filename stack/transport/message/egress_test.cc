#include "stack/transport/message/egress.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "stack/io/eal_for_test.h"

namespace pollux::transport {
namespace {

// Takes as many frames as it is told to.
class FakeLink : public io::Link {
 public:
  uint16_t Receive(rte_mbuf**, uint16_t, uint64_t) override { return 0; }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    const uint16_t taken = std::min<uint16_t>(count, willing);
    willing -= taken;
    for (uint16_t i = 0; i < taken; ++i) {
      order.push_back(frames[i]->pkt_len);
      rte_pktmbuf_free(frames[i]);
    }
    return taken;
  }
  uint16_t willing = 0;
  std::vector<uint32_t> order;
};

class EgressTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    io::InitEalForTest();
    pool_ = rte_pktmbuf_pool_create("egress_test", 127, 0, 0, 2048, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
  }
  void TearDown() override { EXPECT_EQ(rte_mempool_avail_count(pool_), 127u); }

  void PushFrame(Egress& egress, uint16_t length) {
    rte_mbuf* frame = egress.Allocate();
    ASSERT_NE(frame, nullptr);
    rte_pktmbuf_append(frame, length);
    egress.Push(frame, 0);
  }

  static rte_mempool* pool_;
  FakeLink link_;
  Counters counters_;
};
rte_mempool* EgressTest::pool_ = nullptr;

TEST_F(EgressTest, FramesRefusedByTheLinkAreSentFirstNextTime) {
  Egress egress(&link_, pool_, &counters_);
  for (uint16_t i = 1; i <= 5; ++i) PushFrame(egress, i);
  link_.willing = 2;
  egress.Flush(0);
  EXPECT_EQ(egress.room(), Egress::kCapacity - 3);
  PushFrame(egress, 6);
  link_.willing = 100;
  egress.Flush(0);
  EXPECT_EQ(link_.order, (std::vector<uint32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(counters_.sent_pkts, 6u);
  EXPECT_EQ(counters_.sent_bytes, 21u);
}

TEST_F(EgressTest, FramesThatAreAppendedTogetherCompleteABurst) {
  Egress egress(&link_, pool_, &counters_);
  PushFrame(egress, 100);
  EXPECT_EQ(egress.burst_room(), Egress::kBurst - 1);
  uint64_t bytes = 0;
  for (uint16_t i = 0; i + 1 < Egress::kBurst; ++i) {
    rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
    ASSERT_NE(frame, nullptr);
    Egress::Reset(frame, 64);
    egress.places()[i] = frame;
    bytes += 64;
  }
  link_.willing = Egress::kBurst - 2;
  egress.Append(Egress::kBurst - 1, bytes, 0);
  EXPECT_EQ(counters_.sent_pkts, Egress::kBurst - 2u) << "as many as the link accepted";
  EXPECT_EQ(counters_.sent_bytes, 100 + 64 * (Egress::kBurst - 3u));
  EXPECT_EQ(egress.burst_room(), Egress::kBurst - 2);
  link_.willing = 2;
  egress.Flush(0);
  EXPECT_EQ(counters_.sent_bytes, 100 + bytes);
  EXPECT_EQ(egress.pushed_bytes(), 100 + bytes);
}

TEST_F(EgressTest, ASingleRefusedFrameIsKept) {
  Egress egress(&link_, pool_, &counters_);
  EXPECT_TRUE(egress.empty());
  PushFrame(egress, 7);
  egress.Flush(0);
  EXPECT_FALSE(egress.empty());
  EXPECT_EQ(counters_.sent_pkts, 0u);
  PushFrame(egress, 8);
  link_.willing = 1;
  egress.Flush(0);
  link_.willing = 1;
  egress.Flush(0);
  EXPECT_TRUE(egress.empty());
  EXPECT_EQ(link_.order, (std::vector<uint32_t>{7, 8}));
  EXPECT_EQ(counters_.sent_pkts, 2u);
  EXPECT_EQ(counters_.sent_bytes, 15u);
}

TEST_F(EgressTest, AFrameBeyondTheCapacityIsDroppedAndCounted) {
  Egress egress(&link_, pool_, &counters_);
  for (uint16_t i = 0; i < Egress::kCapacity; ++i) PushFrame(egress, 1);
  EXPECT_EQ(egress.room(), 0);
  EXPECT_EQ(counters_.drop(Drop::kEgressFull), 0u);
  PushFrame(egress, 1);
  EXPECT_EQ(counters_.drop(Drop::kEgressFull), 1u);
  EXPECT_EQ(egress.room(), 0);
}

TEST_F(EgressTest, ATurnEndsAfterItsBytes) {
  Egress egress(&link_, pool_, &counters_);
  PushFrame(egress, 1000);
  EXPECT_FALSE(egress.TurnIsOver()) << "none has begun";
  for (int turn = 0; turn < 2; ++turn) {
    egress.BeginTurn(300);
    PushFrame(egress, 299);
    EXPECT_FALSE(egress.TurnIsOver());
    PushFrame(egress, 1);
    EXPECT_TRUE(egress.TurnIsOver());
  }
}

TEST_F(EgressTest, AnEmptyPoolIsCounted) {
  Egress egress(&link_, pool_, &counters_);
  std::vector<rte_mbuf*> held;
  while (rte_mbuf* frame = egress.Allocate()) held.push_back(frame);
  EXPECT_EQ(held.size(), 127u);
  EXPECT_EQ(counters_.drop(Drop::kNoBuffer), 1u);
  rte_pktmbuf_free_bulk(held.data(), held.size());
}

// A pool with a cache for the core that asks, which the one above has not.
TEST_F(EgressTest, CachedBuffersAreUsedOnceAndReset) {
  const unsigned frames = 255, cache = 64;
  rte_mempool* pool =
      rte_pktmbuf_pool_create("egress_cache", frames, cache, 0, 2048, SOCKET_ID_ANY);
  ASSERT_NE(pool, nullptr);
  ASSERT_NE(rte_mempool_default_cache(pool, rte_lcore_id()), nullptr);
  for (int round = 0; round < 2; ++round) {
    Egress egress(&link_, pool, &counters_);
    std::set<rte_mbuf*> held;
    while (rte_mbuf* frame = egress.Allocate()) {
      EXPECT_TRUE(held.insert(frame).second);
      EXPECT_EQ(frame->pkt_len, 0u);
      EXPECT_EQ(frame->data_len, 0u);
      EXPECT_EQ(frame->nb_segs, 1u);
      EXPECT_EQ(frame->next, nullptr);
      EXPECT_EQ(frame->ol_flags, 0u);
      EXPECT_EQ(frame->packet_type, 0u);
      EXPECT_EQ(rte_mbuf_refcnt_read(frame), 1u);
      EXPECT_EQ(rte_pktmbuf_headroom(frame), RTE_PKTMBUF_HEADROOM);
      rte_pktmbuf_append(frame, 2048);  // what the next one to take it must not find
      rte_pktmbuf_adj(frame, 100);
      frame->ol_flags = RTE_MBUF_F_TX_IP_CKSUM;
      frame->packet_type = RTE_PTYPE_L2_ETHER;
    }
    EXPECT_EQ(held.size(), frames);
    EXPECT_EQ(counters_.drop(Drop::kNoBuffer), round + 1u);
    for (rte_mbuf* frame : held) rte_pktmbuf_free(frame);
    EXPECT_EQ(rte_mempool_avail_count(pool), frames);
  }
  rte_mempool_free(pool);
}

TEST(DropTest, EveryReasonHasItsOwnName) {
  std::set<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(Drop::kCount); ++i) {
    EXPECT_TRUE(names.insert(DropName(static_cast<Drop>(i))).second);
  }
  EXPECT_FALSE(names.contains("invalid"));
}

}  // namespace
}  // namespace pollux::transport
