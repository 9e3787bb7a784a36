#include "stack/io/link/loopback.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/base/qpn_layout.h"
#include "stack/io/eal_for_test.h"

namespace pollux::io {
namespace {

constexpr uint16_t kBurst = 8;

class Wire : public Link {
 public:
  ~Wire() override {
    for (rte_mbuf* frame : frames) rte_pktmbuf_free(frame);
  }
  // What is sent comes, later.
  uint16_t Receive(rte_mbuf** into, uint16_t capacity, uint64_t) override {
    uint16_t n = 0;
    for (; n < capacity && !frames.empty(); ++n) {
      into[n] = frames.front();
      frames.pop_front();
    }
    return n;
  }
  uint16_t Send(rte_mbuf** from, uint16_t count, uint64_t) override {
    const auto taken = static_cast<uint16_t>(std::min<size_t>(count, takes));
    frames.insert(frames.end(), from, from + taken);
    takes -= taken;
    return taken;
  }
  std::deque<rte_mbuf*> frames;
  size_t takes = SIZE_MAX;
};

std::vector<uint8_t> Frame(const MacAddress& to, uint8_t mark) {
  std::vector<uint8_t> bytes(100, mark);
  std::copy(to.begin(), to.end(), bytes.begin());
  return bytes;
}

class LoopbackTest : public ::testing::Test {
 protected:
  LoopbackTest() { InitEalForTest(); }
  uint16_t Send(const std::vector<std::vector<uint8_t>>& all) {
    std::vector<rte_mbuf*> frames;
    for (const auto& bytes : all) frames.push_back(FrameForTest(bytes));
    const uint16_t sent = loopback_.Send(frames.data(), static_cast<uint16_t>(frames.size()), 0);
    for (size_t i = sent; i < frames.size(); ++i) rte_pktmbuf_free(frames[i]);
    return sent;
  }
  std::vector<uint8_t> Marks(uint16_t capacity = kBurst) {
    rte_mbuf* frames[kBurst];
    const uint16_t got = loopback_.Receive(frames, capacity, 0);
    std::vector<uint8_t> marks;
    for (uint16_t i = 0; i < got; ++i) {
      marks.push_back(BytesOf(frames[i]).back());
      rte_pktmbuf_free(frames[i]);
    }
    return marks;
  }

  MacAddress own_{2, 0, 0, 0, 0, 1};
  const MacAddress other_{2, 0, 0, 0, 0, 2};
  Wire wire_;
  Loopback loopback_{&wire_, &own_, PoolForTest()};
};

TEST_F(LoopbackTest, OnlyFramesToTheOwnAddressAreLoopedBack) {
  EXPECT_EQ(Send({Frame(own_, 1), Frame(other_, 2), Frame(own_, 3), Frame(other_, 4)}), 4);
  EXPECT_EQ(wire_.frames.size(), 2u);
  EXPECT_EQ(Marks(), (std::vector<uint8_t>{1, 3, 2, 4}));
  EXPECT_TRUE(Marks().empty());
  EXPECT_EQ(loopback_.counters().passed, 2u);
}

TEST_F(LoopbackTest, LoopedFramesDoNotStarveTheWire) {
  Send({Frame(other_, 9)});
  Send(std::vector<std::vector<uint8_t>>(kBurst, Frame(own_, 1)));
  EXPECT_EQ(Marks(), (std::vector<uint8_t>{1, 1, 1, 1, 9}));
}

TEST_F(LoopbackTest, TheAddressMayChange) {
  own_ = other_;
  Send({Frame(other_, 5)});
  EXPECT_TRUE(wire_.frames.empty());
  EXPECT_EQ(Marks(), (std::vector<uint8_t>{5}));
}

TEST_F(LoopbackTest, SendStopsWhenTheLoopOrTheLinkIsFull) {
  for (int i = 0; i < Loopback::kCapacity; ++i) EXPECT_EQ(Send({Frame(own_, 1)}), 1);
  EXPECT_EQ(Send({Frame(other_, 2), Frame(own_, 3)}), 1);
  EXPECT_EQ(Marks(1), (std::vector<uint8_t>{1}));
  EXPECT_EQ(Send({Frame(own_, 3)}), 1);
  wire_.takes = 1;
  EXPECT_EQ(Send({Frame(other_, 2), Frame(other_, 2), Frame(own_, 3)}), 1);
}

TEST_F(LoopbackTest, SegmentedFramesAreLoopedBackInOneSegment) {
  rte_mbuf* frame = FrameForTest(Frame(own_, 1));
  rte_mbuf* more = FrameForTest(Frame(other_, 7));
  ASSERT_EQ(rte_pktmbuf_chain(frame, more), 0);
  ASSERT_EQ(loopback_.Send(&frame, 1, 0), 1);
  rte_mbuf* back[kBurst];
  ASSERT_EQ(loopback_.Receive(back, kBurst, 0), 1);
  EXPECT_EQ(back[0]->nb_segs, 1);
  EXPECT_EQ(BytesOf(back[0]).size(), 200u);
  EXPECT_EQ(BytesOf(back[0]).back(), 7);
  rte_pktmbuf_free(back[0]);
}

TEST_F(LoopbackTest, OtherProcessesGetFramesForTheirQueuePairsAndForQueuePair1) {
  Wire processes;
  const QpnLayout layout{.worker_bits = 0, .index_bits = 11, .process_bits = 7, .process = 5};
  loopback_.ShareWith(&processes, layout);
  const auto roce = [](const MacAddress& to, uint32_t qpn, uint8_t mark) {
    std::vector<uint8_t> frame(14 + 20 + 8 + 12 + 4, mark);
    std::copy(to.begin(), to.end(), frame.begin());
    StoreBe16(&frame[12], 0x0800);
    frame[14] = 0x45;
    StoreBe16(&frame[14 + 6], 0);  // no fragment
    frame[14 + 9] = 17;
    StoreBe16(&frame[14 + 20 + 2], 4791);
    StoreBe32(&frame[14 + 20 + 8 + 4], qpn);
    return frame;
  };
  const uint32_t own_qpn = 5u << 17 | 3, other_qpn = 6u << 17 | 3;
  EXPECT_EQ(Send({roce(own_, own_qpn, 1), roce(own_, other_qpn, 2), roce(other_, other_qpn, 3),
                  roce(own_, kGsiQpn.value, 4), Frame(own_, 5)}),
            5);
  EXPECT_EQ(wire_.frames.size(), 1u);
  EXPECT_EQ(processes.frames.size(), 2u);
  EXPECT_EQ(loopback_.counters().to_processes, 2u);
  // Here everything comes back that the kernel's filter would divide.
  EXPECT_EQ(Marks(), (std::vector<uint8_t>{1, 5, 2, 4, 3}));
  EXPECT_EQ(loopback_.counters().from_processes, 2u);
  processes.takes = 0;  // as if lo were down
  EXPECT_EQ(Send({roce(own_, other_qpn, 6), roce(own_, other_qpn, 7), roce(own_, own_qpn, 8)}), 3);
  EXPECT_EQ(loopback_.counters().to_processes_lost, 2u);
  EXPECT_EQ(Marks(), (std::vector<uint8_t>{8}));
}

TEST_F(LoopbackTest, DestructionFreesQueuedFrames) {
  const unsigned before = FramesInUse();
  {
    Loopback loopback(&wire_, &own_, PoolForTest());
    rte_mbuf* frame = FrameForTest(Frame(own_, 1));
    EXPECT_EQ(loopback.Send(&frame, 1, 0), 1);
  }
  EXPECT_EQ(FramesInUse(), before);
}

TEST_F(LoopbackTest, WithoutABufferAFrameIsLostAndCounted) {
  rte_mempool* dry = rte_pktmbuf_pool_create("dry", 1, 0, 0, 4480, SOCKET_ID_ANY);
  ASSERT_NE(dry, nullptr);
  rte_mbuf* last = rte_pktmbuf_alloc(dry);
  {
    Loopback loopback(&wire_, &own_, dry);
    rte_mbuf* frame = FrameForTest(Frame(own_, 1));
    EXPECT_EQ(loopback.Send(&frame, 1, 0), 1);
    EXPECT_EQ(loopback.counters().no_buffer, 1u);
  }
  rte_pktmbuf_free(last);
  rte_mempool_free(dry);
}

}  // namespace
}  // namespace pollux::io
