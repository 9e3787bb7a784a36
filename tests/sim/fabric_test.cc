#include "tests/sim/fabric.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "stack/engine/eal.h"

namespace pollux::sim {
namespace {

constexpr MacAddress kMacs[] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 3}};
constexpr MacAddress kBroadcast = {255, 255, 255, 255, 255, 255};

class FabricTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(engine::InitEal().ok());
    pool_ = rte_pktmbuf_pool_create("fabric_test", 8191, 0, 0, 2048, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(rte_mempool_in_use_count(pool_), 0u);
    for (auto& fabric : fabrics_) EXPECT_EQ(fabric->copies_in_use(), 0u);
  }

  Fabric& Make(uint64_t seed, const Conditions& conditions) {
    fabrics_.push_back(std::make_unique<Fabric>(seed, conditions));
    for (const MacAddress& mac : kMacs) ports_.push_back(fabrics_.back()->AddPort(mac));
    return *fabrics_.back();
  }
  // `number` names the frame; 64 bytes.
  void Send(FabricPort* from, const MacAddress& to, uint32_t number, uint64_t now_ns) {
    rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
    ASSERT_NE(frame, nullptr);
    auto* bytes = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, 64));
    ASSERT_NE(bytes, nullptr);
    std::memset(bytes, 0, 64);
    std::memcpy(bytes, to.data(), 6);
    std::memcpy(bytes + 6, from->mac().data(), 6);
    bytes[12] = 0x08;  // IPv4: what may be corrupted
    std::memcpy(bytes + 20, &number, sizeof number);
    ASSERT_EQ(from->Send(&frame, 1, now_ns), 1);
  }
  std::vector<uint32_t> Receive(FabricPort* port, uint64_t now_ns) {
    std::vector<uint32_t> numbers;
    rte_mbuf* frame;
    while (port->Receive(&frame, 1, now_ns) == 1) {
      uint32_t number;
      std::memcpy(&number, rte_pktmbuf_mtod_offset(frame, uint8_t*, 20), sizeof number);
      numbers.push_back(number);
      rte_pktmbuf_free(frame);
    }
    return numbers;
  }

  static rte_mempool* pool_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  std::vector<FabricPort*> ports_;
};
rte_mempool* FabricTest::pool_ = nullptr;

TEST_F(FabricTest, UnicastReachesItsPortAfterTheDelay) {
  Fabric& fabric = Make(1, {.min_delay_ns = 100, .max_delay_ns = 100});
  Send(ports_[0], kMacs[2], 7, 1000);
  EXPECT_EQ(fabric.NextArrival(), 1100u);
  EXPECT_TRUE(Receive(ports_[2], 1099).empty());
  EXPECT_EQ(Receive(ports_[2], 1100), std::vector<uint32_t>{7});
  EXPECT_TRUE(Receive(ports_[1], 1'000'000).empty());
  EXPECT_EQ(fabric.NextArrival(), UINT64_MAX);
}

TEST_F(FabricTest, BroadcastAndUnknownUnicastReachAllOtherPorts) {
  Make(1, {});
  Send(ports_[0], kBroadcast, 1, 0);
  Send(ports_[0], {2, 9, 9, 9, 9, 9}, 2, 0);
  EXPECT_TRUE(Receive(ports_[0], 1'000'000).empty());
  EXPECT_EQ(Receive(ports_[1], 1'000'000), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(Receive(ports_[2], 1'000'000), (std::vector<uint32_t>{1, 2}));
}

TEST_F(FabricTest, RandomDelayKeepsTheOrder) {
  Make(3, {.min_delay_ns = 1, .max_delay_ns = 1'000'000});
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < 200; ++i) {
    Send(ports_[0], kMacs[1], i, i);
    all.push_back(i);
  }
  EXPECT_EQ(Receive(ports_[1], 10'000'000), all);
}

TEST_F(FabricTest, EachConditionOccursWithItsProbability) {
  Fabric& fabric =
      Make(5, {.loss = 0.1, .duplication = 0.05, .reordering = 0.2, .corruption = 0.02});
  constexpr uint32_t kFrames = 20'000;
  size_t received = 0;
  bool out_of_order = false;
  uint32_t last = 0;
  for (uint32_t i = 0; i < kFrames; ++i) {
    Send(ports_[0], kMacs[1], i, i * 1000ull);
    for (const uint32_t number : Receive(ports_[1], i * 1000ull)) {
      ++received;
      out_of_order |= number < last;
      last = number;
    }
  }
  received += Receive(ports_[1], UINT64_MAX).size();
  const FabricCounters& counters = fabric.counters();
  EXPECT_NEAR(static_cast<double>(counters.lost), 0.1 * kFrames, 200);
  EXPECT_NEAR(static_cast<double>(counters.duplicated), 0.045 * kFrames, 150);
  EXPECT_NEAR(static_cast<double>(counters.corrupted), 0.018 * kFrames, 100);
  EXPECT_NEAR(static_cast<double>(counters.reordered), 0.18 * kFrames, 300);
  EXPECT_TRUE(out_of_order);
  EXPECT_EQ(received, kFrames - counters.lost + counters.duplicated);
  EXPECT_EQ(received, counters.delivered);
}

TEST_F(FabricTest, TheSameSeedGivesTheSameHistory) {
  const Conditions rough = {.loss = 0.2,
                            .duplication = 0.2,
                            .reordering = 0.3,
                            .corruption = 0.1,
                            .max_delay_ns = 90'000};
  Make(42, rough);
  Make(42, rough);
  Make(43, rough);
  std::vector<uint32_t> history[3];
  for (int i = 0; i < 3; ++i) {
    for (uint32_t n = 0; n < 300; ++n) Send(ports_[3 * i], kMacs[1], n, n * 500);
    history[i] = Receive(ports_[3 * i + 1], UINT64_MAX);
  }
  EXPECT_EQ(history[0], history[1]);
  EXPECT_NE(history[0], history[2]);
}

TEST_F(FabricTest, ArpIsNotCorrupted) {
  Fabric& fabric = Make(9, {.corruption = 1});
  rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
  std::memset(rte_pktmbuf_append(frame, 60), 0, 60);
  std::memcpy(rte_pktmbuf_mtod(frame, uint8_t*), kMacs[1].data(), 6);
  rte_pktmbuf_mtod(frame, uint8_t*)[12] = 0x08;
  rte_pktmbuf_mtod(frame, uint8_t*)[13] = 0x06;
  rte_mbuf* sent = frame;
  ASSERT_EQ(ports_[0]->Send(&sent, 1, 0), 1);
  ASSERT_EQ(ports_[1]->Receive(&sent, 1, UINT64_MAX), 1);
  EXPECT_EQ(sent, frame);
  EXPECT_EQ(fabric.counters().corrupted, 0u);
  rte_pktmbuf_free(sent);
}

TEST_F(FabricTest, CorruptionChangesACopy) {
  Make(9, {.corruption = 1});
  rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
  std::memset(rte_pktmbuf_append(frame, 200), 0, 200);
  std::memcpy(rte_pktmbuf_mtod(frame, uint8_t*), kMacs[1].data(), 6);
  rte_pktmbuf_mtod(frame, uint8_t*)[12] = 0x08;  // IPv4
  rte_mbuf_refcnt_update(frame, 1);              // what the sender keeps to look at
  rte_mbuf* sent = frame;
  ASSERT_EQ(ports_[0]->Send(&sent, 1, 0), 1);
  ASSERT_EQ(ports_[1]->Receive(&sent, 1, UINT64_MAX), 1);
  ASSERT_NE(sent, frame);
  EXPECT_NE(std::memcmp(rte_pktmbuf_mtod(sent, void*), rte_pktmbuf_mtod(frame, void*), 200), 0);
  EXPECT_EQ(rte_pktmbuf_mtod(frame, uint8_t*)[100], 0);
  rte_pktmbuf_free(sent);
  rte_pktmbuf_free(frame);
}

TEST_F(FabricTest, LinkDownDropsFramesInFlight) {
  Fabric& fabric = Make(1, {.min_delay_ns = 100, .max_delay_ns = 100});
  Send(ports_[0], kMacs[1], 1, 0);
  ports_[1]->SetUp(false);
  EXPECT_TRUE(Receive(ports_[1], 1000).empty());
  ports_[1]->SetUp(true);
  ports_[0]->SetUp(false);
  Send(ports_[0], kMacs[1], 2, 2000);
  ports_[0]->SetUp(true);
  Send(ports_[0], kMacs[1], 3, 3000);
  EXPECT_EQ(Receive(ports_[1], 4000), std::vector<uint32_t>{3});
  EXPECT_EQ(fabric.counters().link_down, 2u);
}

TEST_F(FabricTest, BandwidthSpacesFrames) {
  Make(1, {.min_delay_ns = 0, .max_delay_ns = 0, .bits_per_second = 512'000'000});  // 1 us a frame
  for (uint32_t i = 0; i < 3; ++i) Send(ports_[0], kMacs[1], i, 0);
  EXPECT_TRUE(Receive(ports_[1], 999).empty());
  EXPECT_EQ(Receive(ports_[1], 1000).size(), 1u);
  EXPECT_EQ(Receive(ports_[1], 3000).size(), 2u);
}

TEST_F(FabricTest, AFrameBeyondTheQueueLimitIsDropped) {
  Fabric& fabric = Make(1, {});
  for (uint32_t i = 0; i < Fabric::kMaxQueued; ++i) Send(ports_[0], kMacs[1], i, 0);
  EXPECT_EQ(fabric.counters().queue_overflow, 0u);
  Send(ports_[0], kMacs[1], 0, 0);
  EXPECT_EQ(fabric.counters().queue_overflow, 1u);
  fabric.Drain();
  EXPECT_EQ(fabric.NextArrival(), UINT64_MAX);
}

TEST_F(FabricTest, SegmentedFramesArriveInOneSegment) {
  Make(1, {});
  rte_mbuf* head = rte_pktmbuf_alloc(pool_);
  rte_mbuf* tail = rte_pktmbuf_alloc(pool_);
  std::memset(rte_pktmbuf_append(head, 30), 1, 30);
  std::memcpy(rte_pktmbuf_mtod(head, uint8_t*), kMacs[1].data(), 6);
  std::memset(rte_pktmbuf_append(tail, 50), 2, 50);
  ASSERT_EQ(rte_pktmbuf_chain(head, tail), 0);
  ASSERT_EQ(ports_[0]->Send(&head, 1, 0), 1);
  rte_mbuf* frame;
  ASSERT_EQ(ports_[1]->Receive(&frame, 1, UINT64_MAX), 1);
  EXPECT_EQ(frame->nb_segs, 1);
  EXPECT_EQ(frame->pkt_len, 80u);
  EXPECT_EQ(rte_pktmbuf_mtod(frame, uint8_t*)[29], 1);
  EXPECT_EQ(rte_pktmbuf_mtod(frame, uint8_t*)[30], 2);
  rte_pktmbuf_free(frame);
}

}  // namespace
}  // namespace pollux::sim
