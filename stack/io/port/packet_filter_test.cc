#include "stack/io/port/packet_filter.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/base/fd.h"
#include "stack/wire/roce_packet.h"

namespace pollux::io {
namespace {

constexpr QpnLayout kLayout{.worker_bits = 0, .index_bits = 11, .process_bits = 7, .process = 5};
constexpr uint32_t kOwnQpn = 5u << 17 | 3;
constexpr uint32_t kOtherQpn = 6u << 17 | 3;
constexpr size_t kIpv4Udp = 14 + 20;
constexpr size_t kIpv6Udp = 14 + 40;

std::vector<uint8_t> Ipv4Frame(uint32_t qpn, size_t option_bytes = 0) {
  std::vector<uint8_t> frame(kIpv4Udp + option_bytes + 8 + 12 + 4);
  frame[0] = 0x02;
  StoreBe16(&frame[12], 0x0800);
  frame[14] = static_cast<uint8_t>(0x45 + option_bytes / 4);
  frame[14 + 9] = 17;
  StoreBe16(&frame[kIpv4Udp + option_bytes + 2], wire::kRocePort);
  StoreBe32(&frame[kIpv4Udp + option_bytes + 8 + 4], qpn);
  return frame;
}

std::vector<uint8_t> Ipv6Frame(uint32_t qpn) {
  std::vector<uint8_t> frame(kIpv6Udp + 8 + 12 + 4);
  frame[0] = 0x02;
  StoreBe16(&frame[12], 0x86DD);
  frame[14 + 6] = 17;
  StoreBe16(&frame[kIpv6Udp + 2], wire::kRocePort);
  StoreBe32(&frame[kIpv6Udp + 8 + 4], qpn);
  return frame;
}

// The kernel runs the filter of any socket, also on datagrams between two of AF_UNIX.
bool Accepts(const QpnLayout& layout, const std::vector<uint8_t>& frame) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const Fd sender(ends[0]), receiver(ends[1]);
  EXPECT_TRUE(AttachPacketFilter(receiver.get(), RocePacketFilter(layout)));
  (void)send(sender.get(), frame.data(), frame.size(), MSG_DONTWAIT);
  uint8_t received[256];
  const ssize_t bytes = recv(receiver.get(), received, sizeof received, MSG_DONTWAIT);
  return bytes == static_cast<ssize_t>(frame.size());
}

TEST(PacketFilterTest, AcceptsPacketsToTheQueuePairsOfThisProcess) {
  EXPECT_TRUE(Accepts(kLayout, Ipv4Frame(kOwnQpn)));
  EXPECT_TRUE(Accepts(kLayout, Ipv6Frame(kOwnQpn)));
  EXPECT_FALSE(Accepts(kLayout, Ipv4Frame(kOtherQpn)));
  EXPECT_FALSE(Accepts(kLayout, Ipv6Frame(kOtherQpn)));
}

TEST(PacketFilterTest, AcceptsQueuePair1AndMulticastOfEveryProcess) {
  EXPECT_TRUE(Accepts(kLayout, Ipv4Frame(1)));
  EXPECT_TRUE(Accepts(kLayout, Ipv6Frame(0xFFFFFF)));
  EXPECT_FALSE(Accepts(kLayout, Ipv4Frame(0)));
}

// IB specification volume 1, section 9.2: the byte before the queue pair number is reserved.
TEST(PacketFilterTest, IgnoresTheReservedByteBeforeTheQueuePairNumber) {
  EXPECT_TRUE(Accepts(kLayout, Ipv4Frame(0xFF000000 | kOwnQpn)));
}

TEST(PacketFilterTest, FindsTheQueuePairNumberBehindIpv4Options) {
  EXPECT_TRUE(Accepts(kLayout, Ipv4Frame(kOwnQpn, 8)));
  EXPECT_FALSE(Accepts(kLayout, Ipv4Frame(kOtherQpn, 8)));
}

TEST(PacketFilterTest, RejectsWhatIsNotRoce) {
  std::vector<uint8_t> frame = Ipv4Frame(kOwnQpn);
  frame[12] = 0x88;  // another Ethertype
  EXPECT_FALSE(Accepts(kLayout, frame));
  frame = Ipv4Frame(kOwnQpn);
  frame[14 + 9] = 6;  // TCP
  EXPECT_FALSE(Accepts(kLayout, frame));
  frame = Ipv4Frame(kOwnQpn);
  frame[14 + 7] = 1;  // a later fragment: what follows is no UDP header
  EXPECT_FALSE(Accepts(kLayout, frame));
  frame = Ipv4Frame(kOwnQpn);
  ++frame[kIpv4Udp + 3];  // another UDP port
  EXPECT_FALSE(Accepts(kLayout, frame));
  frame = Ipv6Frame(kOwnQpn);
  frame[14 + 6] = 58;  // ICMPv6
  EXPECT_FALSE(Accepts(kLayout, frame));
  frame = Ipv6Frame(kOwnQpn);
  ++frame[kIpv6Udp + 3];
  EXPECT_FALSE(Accepts(kLayout, frame));
  // It ends before the number.
  frame = Ipv4Frame(kOwnQpn);
  frame.resize(kIpv4Udp + 8 + 4);
  EXPECT_FALSE(Accepts(kLayout, frame));
}

// Any user can send those, by a UDP socket to 127.0.0.1.
TEST(PacketFilterTest, RejectsTheKernelsOwnPacketsOverLo) {
  std::vector<uint8_t> frame = Ipv4Frame(kOwnQpn);
  frame[0] = 0;
  EXPECT_FALSE(Accepts(kLayout, frame));
  frame[5] = 1;
  EXPECT_TRUE(Accepts(kLayout, frame));
}

TEST(PacketFilterTest, AProcessAloneGetsEveryNumber) {
  EXPECT_TRUE(Accepts({}, Ipv4Frame(kOwnQpn)));
  EXPECT_TRUE(Accepts({}, Ipv4Frame(kOtherQpn)));
}

}  // namespace
}  // namespace pollux::io
