#include "tests/sim/marked_queue.h"

#include <gtest/gtest.h>

#include <cstring>

#include "stack/engine/eal.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kFrameBytes = 1'000;
constexpr uint64_t kFrameNs = 8'000;  // at 1 Gb/s

class MarkedQueueTest : public ::testing::Test {
 protected:
  MarkedQueueTest() {
    EXPECT_TRUE(engine::InitEal().ok());
    pool_ = rte_pktmbuf_pool_create("marked", 15, 0, 0, 2048, SOCKET_ID_ANY);
    frame_ = rte_pktmbuf_alloc(pool_);
    rte_pktmbuf_append(frame_, kFrameBytes);
    MakeIpv4(wire::kEct0);
  }
  ~MarkedQueueTest() override {
    rte_pktmbuf_free(frame_);
    rte_mempool_free(pool_);
  }
  uint8_t* bytes() { return rte_pktmbuf_mtod(frame_, uint8_t*); }
  void MakeIpv4(uint8_t tos) {
    wire::EmitEthernet({.ether_type = wire::kEtherTypeIpv4}, bytes());
    wire::EmitIpv4({.tos = tos, .total_length = kFrameBytes - 14}, bytes() + 14);
  }
  bool Marked() { return (bytes()[15] & 3) == wire::kCe; }
  std::optional<uint64_t> Pass(uint64_t now_ns) {
    MakeIpv4(wire::kEct0);
    return queue_.Pass(frame_, 3, now_ns, random_);
  }
  rte_mempool* pool_;
  rte_mbuf* frame_;
  Random random_{1};
  MarkedQueue queue_{{.bits_per_second = 1'000'000'000,
                      .min_bytes = 5'000,
                      .max_bytes = 20'000,
                      .max_probability = 0.5,
                      .capacity_bytes = 30'000}};
};

TEST_F(MarkedQueueTest, FramesLeaveInTurn) {
  EXPECT_EQ(Pass(1'000'000), 1'000'000 + kFrameNs);
  EXPECT_EQ(Pass(1'000'000), 1'000'000 + 2 * kFrameNs);
  EXPECT_EQ(Pass(1'000'000 + kFrameNs), 1'000'000 + 3 * kFrameNs);
  EXPECT_EQ(Pass(9'000'000), 9'000'000 + kFrameNs);
  EXPECT_EQ(queue_.counters().bytes, 4u * kFrameBytes);
  EXPECT_EQ(queue_.counters().bytes_from.at(3), 4u * kFrameBytes);
  EXPECT_EQ(queue_.counters().longest_bytes, kFrameBytes);
}

TEST_F(MarkedQueueTest, MarksWithTheProbabilityOfItsLength) {
  for (uint32_t waiting = 0; waiting < 30; ++waiting) {
    int marked = 0;
    constexpr int kTimes = 4'000;
    for (int i = 1; i <= kTimes; ++i) {
      const uint64_t now_ns = 1'000'000'000 * uint64_t(i) + waiting;
      // As many frames before it as wait.
      MarkedQueue queue = queue_;
      for (uint32_t n = 0; n < waiting; ++n) queue.Pass(frame_, 0, now_ns, random_);
      MakeIpv4(wire::kEct0);
      ASSERT_TRUE(queue.Pass(frame_, 0, now_ns, random_));
      marked += Marked();
    }
    const double expected = waiting < 5 ? 0 : waiting >= 20 ? 1 : 0.5 * (waiting - 5) / 15;
    EXPECT_NEAR(static_cast<double>(marked) / kTimes, expected, 0.03) << waiting;
  }
}

TEST_F(MarkedQueueTest, DropsFramesThatDoNotFit) {
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(Pass(0)) << i;
  EXPECT_FALSE(Pass(0));
  EXPECT_EQ(queue_.counters().lost, 1u);
  EXPECT_TRUE(Pass(kFrameNs));
  queue_.ResetCounters();
  EXPECT_EQ(queue_.counters().lost, 0u);
  EXPECT_FALSE(Pass(kFrameNs)) << "the queue itself is as it was";
}

TEST_F(MarkedQueueTest, MarkingUpdatesTheIpv4Checksum) {
  for (const uint8_t tos : {0xC1, 0xC2, 0xC3}) {
    MakeIpv4(tos);
    EXPECT_TRUE(SetCongestionExperienced(frame_));
    const auto header = wire::ParseIpv4(bytes() + 14, kFrameBytes - 14);
    ASSERT_TRUE(header) << "the checksum";
    EXPECT_EQ(header->tos, 0xC3);
  }
  MakeIpv4(0xC0);
  EXPECT_FALSE(SetCongestionExperienced(frame_));
  EXPECT_EQ(bytes()[15], 0xC0);
}

TEST_F(MarkedQueueTest, MarksIpv6AfterAVlanTag) {
  for (const uint8_t capable : {0, 2}) {
    wire::EmitEthernet({.vlan_tci = 0x2064, .ether_type = wire::kEtherTypeIpv6}, bytes());
    const wire::Ipv6Header header{.traffic_class = static_cast<uint8_t>(0x68 | capable),
                                  .flow_label = 0xABCDE,
                                  .payload_length = kFrameBytes - 18 - 40};
    wire::EmitIpv6(header, bytes() + 18);
    EXPECT_EQ(SetCongestionExperienced(frame_), capable != 0);
    const auto after = wire::ParseIpv6(bytes() + 18, kFrameBytes - 18);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->traffic_class, capable != 0 ? 0x6B : 0x68);
    EXPECT_EQ(after->flow_label, 0xABCDEu);
  }
}

TEST_F(MarkedQueueTest, OtherProtocolsAreNotMarked) {
  std::memset(bytes(), 0, kFrameBytes);
  EXPECT_FALSE(SetCongestionExperienced(frame_));
}

}  // namespace
}  // namespace pollux::sim
