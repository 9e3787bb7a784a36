#include "stack/kernel/tap_forwarder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "stack/io/eal_for_test.h"
#include "stack/io/link/packet_pool.h"
#include "stack/kernel/fake_port_for_test.h"

namespace pollux::kernel {
namespace {

constexpr uint16_t kFrameBytes = 1518;

// A pair of datagram sockets keeps frames apart, as a tap does.
class TapForwarderTest : public ::testing::Test {
 protected:
  TapForwarderTest() {
    io::InitEalForTest();
    in_use_before_ = io::FramesInUse();
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, tap_), 0);
    pool_ = io::CreatePacketPool("forwarder", 127, 0, RTE_PKTMBUF_HEADROOM + kFrameBytes);
    forwarder_ = std::make_unique<TapForwarder>(&port_, tap_[0], pool_, kFrameBytes);
  }
  ~TapForwarderTest() override {
    forwarder_.reset();
    EXPECT_EQ(io::FramesInUse(), in_use_before_);
    EXPECT_EQ(rte_mempool_in_use_count(pool_), 0u);
    rte_mempool_free(pool_);
    close(tap_[0]);
    close(tap_[1]);
  }
  // A RoCE packet, by its UDP port alone.
  static Frame Roce(uint8_t mark, size_t bytes = 60) {
    Frame frame(bytes);
    frame[12] = 0x08;
    frame[14] = 0x45;
    frame[23] = 17;
    frame[36] = 4791 >> 8;
    frame[37] = 4791 & 0xFF;
    frame[bytes - 1] = mark;
    return frame;
  }
  void Poll() {
    rte_mbuf* frames[32];
    EXPECT_EQ(forwarder_->Receive(frames, 32, 0), 0);
  }
  void WriteAsKernel(const Frame& frame) {
    ASSERT_EQ(write(tap_[1], frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }
  Frame ReadAsKernel() {
    Frame frame(4096);
    const ssize_t bytes = read(tap_[1], frame.data(), frame.size());
    frame.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
    return frame;
  }

  FakePort port_;
  int tap_[2];
  rte_mempool* pool_;
  std::unique_ptr<TapForwarder> forwarder_;
  unsigned in_use_before_ = 0;
};

TEST_F(TapForwarderTest, EveryFrameOfThePortGoesToTheKernel) {
  port_.Arrive({Roce(1), Roce(2)});
  Poll();
  EXPECT_TRUE(forwarder_->moved());
  EXPECT_EQ(ReadAsKernel(), Roce(1));
  EXPECT_EQ(ReadAsKernel(), Roce(2));
  EXPECT_EQ(forwarder_->counters().to_kernel, 2u);
  Poll();
  EXPECT_FALSE(forwarder_->moved());
}

TEST_F(TapForwarderTest, FramesThatTheKernelCannotTakeAreDroppedAndCounted) {
  rte_mbuf* const scattered = io::FrameForTest(Roce(1));
  ASSERT_EQ(rte_pktmbuf_chain(scattered, io::FrameForTest(Roce(2))), 0);
  port_.incoming = {scattered, io::FrameForTest(Roce(3))};
  Poll();
  EXPECT_EQ(ReadAsKernel(), Roce(3));
  EXPECT_EQ(forwarder_->counters().to_kernel_dropped, 1u);
  // Every write fails, as it does while the interface is down.
  forwarder_ = std::make_unique<TapForwarder>(&port_, -1, pool_, kFrameBytes);
  port_.Arrive({Roce(4)});
  Poll();
  EXPECT_EQ(forwarder_->counters().to_kernel_dropped, 1u);
  EXPECT_EQ(forwarder_->counters().to_kernel, 0u);
}

TEST_F(TapForwarderTest, FramesOfTheKernelAreSentInOrderThroughThePort) {
  for (uint8_t i = 0; i < 5; ++i) WriteAsKernel(Roce(i));
  Poll();
  EXPECT_TRUE(forwarder_->moved());
  ASSERT_EQ(port_.sent.size(), 5u);
  for (uint8_t i = 0; i < 5; ++i) EXPECT_EQ(port_.sent[i], Roce(i));
  EXPECT_EQ(forwarder_->counters().from_kernel, 5u);
}

TEST_F(TapForwarderTest, FramesThatThePortDoesNotTakeWaitAndNoMoreAreRead) {
  for (uint8_t i = 0; i < 4; ++i) WriteAsKernel(Roce(i));
  port_.room = 1;
  Poll();
  WriteAsKernel(Roce(4));
  port_.room = 0;
  Poll();
  EXPECT_FALSE(forwarder_->moved());
  EXPECT_EQ(rte_mempool_in_use_count(pool_), 3u);
  port_.room = UINT16_MAX;
  Poll();
  Poll();
  ASSERT_EQ(port_.sent.size(), 5u);
  for (uint8_t i = 0; i < 5; ++i) EXPECT_EQ(port_.sent[i], Roce(i));
  // Freed at the end, if the port never takes them.
  port_.room = 0;
  WriteAsKernel(Roce(5));
  Poll();
}

TEST_F(TapForwarderTest, FramesLongerThanThePortSendsAreDroppedAndCounted) {
  WriteAsKernel(Roce(1, kFrameBytes));
  WriteAsKernel(Roce(2, kFrameBytes + 1));
  WriteAsKernel(Roce(3, 4000));
  WriteAsKernel(Roce(4));
  Poll();
  EXPECT_EQ(port_.sent, (std::vector{Roce(1, kFrameBytes), Roce(4)}));
  EXPECT_EQ(forwarder_->counters().from_kernel_over_mtu, 2u);
}

}  // namespace
}  // namespace pollux::kernel
