#include "stack/kernel/exception_path.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <vector>

#include "stack/io/eal_for_test.h"
#include "stack/kernel/fake_port_for_test.h"

namespace pollux::kernel {
namespace {

// A pair of datagram sockets keeps frames apart, as a tap does.
class ExceptionPathTest : public ::testing::Test {
 protected:
  ExceptionPathTest() {
    io::InitEalForTest();
    in_use_before_ = io::FramesInUse();
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, tap_), 0);
    path_ = ExceptionPath::Start(&port_, tap_[0], 2000).value();
  }
  ~ExceptionPathTest() override {
    path_->Stop();
    path_.reset();
    EXPECT_EQ(io::FramesInUse(), in_use_before_);
    close(tap_[0]);
    close(tap_[1]);
  }
  static Frame Arp(uint8_t mark) {
    Frame frame(60);
    frame[12] = 0x08;
    frame[13] = 0x06;
    frame[59] = mark;
    return frame;
  }
  static Frame Udp(uint16_t port) {
    Frame frame(60);
    frame[12] = 0x08;
    frame[14] = 0x45;
    frame[23] = 17;
    frame[36] = static_cast<uint8_t>(port >> 8);
    frame[37] = static_cast<uint8_t>(port);
    return frame;
  }
  // One poll; the frames that remain for the worker.
  std::vector<Frame> Poll() {
    rte_mbuf* frames[32];
    const uint16_t count = path_->Receive(frames, 32, 0);
    std::vector<Frame> all;
    for (uint16_t i = 0; i < count; ++i) {
      all.push_back(io::BytesOf(frames[i]));
      rte_pktmbuf_free(frames[i]);
    }
    return all;
  }
  Frame ReadFromKernelsSide() {
    Frame frame(4096);
    ssize_t bytes;
    while ((bytes = read(tap_[1], frame.data(), frame.size())) < 0) usleep(100);
    frame.resize(static_cast<size_t>(bytes));
    return frame;
  }

  FakePort port_;
  int tap_[2];
  std::unique_ptr<ExceptionPath> path_;
  unsigned in_use_before_ = 0;
};

TEST_F(ExceptionPathTest, OnlyRoceReachesTheWorker) {
  port_.Arrive({Arp(1), Udp(4791), Udp(53), Udp(4791), Arp(2)});
  EXPECT_EQ(Poll(), (std::vector{Udp(4791), Udp(4791)}));
  EXPECT_EQ(ReadFromKernelsSide(), Arp(1));
  EXPECT_EQ(ReadFromKernelsSide(), Udp(53));
  EXPECT_EQ(ReadFromKernelsSide(), Arp(2));
  EXPECT_EQ(path_->counters().to_kernel, 3u);
}

// As a kernel on this host sends them, which leaves the checksum to the NIC.
TEST_F(ExceptionPathTest, ChecksumsThatAreLeftToTheNicAreCompleted) {
  constexpr size_t kOdd = 61;
  for (const bool tagged : {false, true}) {
    for (const bool ipv6 : {false, true}) {
      for (const bool tcp : {false, true}) {
        SCOPED_TRACE(testing::Message() << tagged << ipv6 << tcp);
        const size_t at = tagged ? 18 : 14, header = ipv6 ? 40 : 20, inner = at + header;
        Frame frame(inner + kOdd);
        for (size_t i = at; i < frame.size(); ++i) frame[i] = static_cast<uint8_t>(37 * i);
        if (tagged) frame[12] = 0x81;
        frame[at - 2] = ipv6 ? 0x86 : 0x08;
        frame[at - 1] = ipv6 ? 0xDD : 0x00;
        const uint8_t protocol = tcp ? 6 : 17;
        auto* const ip4 = reinterpret_cast<rte_ipv4_hdr*>(&frame[at]);
        auto* const ip6 = reinterpret_cast<rte_ipv6_hdr*>(&frame[at]);
        if (ipv6) {
          ip6->vtc_flow = 0x60;
          ip6->payload_len = rte_cpu_to_be_16(kOdd);
          ip6->proto = protocol;
        } else {
          ip4->version_ihl = 0x45;
          ip4->total_length = rte_cpu_to_be_16(static_cast<uint16_t>(header + kOdd));
          ip4->fragment_offset = 0;
          ip4->next_proto_id = protocol;
        }
        const auto put = [&](Frame* into, uint16_t value) {
          std::memcpy(&(*into)[inner + (tcp ? 16 : 6)], &value, sizeof value);
        };
        Frame complete = frame;
        put(&frame, 0);
        const uint16_t sum = ipv6 ? rte_ipv6_udptcp_cksum(ip6, &frame[inner])
                                  : rte_ipv4_udptcp_cksum(ip4, &frame[inner]);
        put(&complete, sum);
        Frame wrong = frame;
        put(&wrong, static_cast<uint16_t>(sum + 1));
        put(&frame, ipv6 ? rte_ipv6_phdr_cksum(ip6, 0) : rte_ipv4_phdr_cksum(ip4, 0));
        Frame cut = frame;
        cut.pop_back();
        port_.Arrive({frame, complete, wrong, cut});
        EXPECT_TRUE(Poll().empty());
        EXPECT_EQ(ReadFromKernelsSide(), complete);
        EXPECT_EQ(ReadFromKernelsSide(), complete);
        EXPECT_EQ(ReadFromKernelsSide(), wrong);
        EXPECT_EQ(ReadFromKernelsSide(), cut);
      }
    }
  }
}

TEST_F(ExceptionPathTest, FramesOfTheKernelAreSentThroughThePort) {
  for (uint8_t i = 0; i < 5; ++i) {
    ASSERT_EQ(write(tap_[1], Arp(i).data(), 60), 60);
  }
  while (port_.sent.size() < 5) EXPECT_TRUE(Poll().empty());
  for (uint8_t i = 0; i < 5; ++i) EXPECT_EQ(port_.sent[i], Arp(i));
  EXPECT_EQ(path_->counters().from_kernel, 5u);
}

TEST_F(ExceptionPathTest, AFullPortDropsFramesOfTheKernel) {
  port_.room = 0;
  ASSERT_EQ(write(tap_[1], Arp(1).data(), 60), 60);
  while (path_->counters().from_kernel_dropped == 0) Poll();
  EXPECT_EQ(path_->counters().from_kernel, 0u);
}

// The kernel reads nothing; what is beyond the ring and the socket is dropped, and counted.
TEST_F(ExceptionPathTest, FramesQueuedForTheKernelAreBounded) {
  path_->Stop();
  for (unsigned i = 0; i < ExceptionPath::kToKernelFrames + 10; ++i) {
    port_.Arrive({Arp(1)});
  }
  while (!port_.incoming.empty()) Poll();
  // A ring holds one frame less than its size.
  EXPECT_EQ(path_->counters().to_kernel, ExceptionPath::kToKernelFrames - 1);
  EXPECT_EQ(path_->counters().to_kernel_dropped, 11u);
  EXPECT_EQ(io::FramesInUse() - in_use_before_, ExceptionPath::kToKernelFrames - 1);
}

TEST_F(ExceptionPathTest, TheThreadSleepsIfTheTapIsDeleted) {
  // As that of a deleted tap: no interface belongs to it.
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) GTEST_SKIP() << "needs /dev/net/tun";
  path_->Stop();
  path_ = ExceptionPath::Start(&port_, tap, 2000).value();
  const std::clock_t before = std::clock();
  usleep(500'000);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
  port_.Arrive({Arp(1)});
  Poll();
  while (io::FramesInUse() != in_use_before_) usleep(100);  // what cannot be delivered is freed
  path_->Stop();
  close(tap);
}

}  // namespace
}  // namespace pollux::kernel
