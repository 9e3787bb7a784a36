#include "stack/wire/roce_packet.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/test_frames.h"
#include "stack/wire/udp.h"

namespace pollux::wire {
namespace {

constexpr size_t kIpAt = 14;
constexpr size_t kUdpAt = kIpAt + kIpv4Bytes;
constexpr size_t kBthAt = kUdpAt + kUdpBytes;

// The frame in a heap block of exactly its size, so that a sanitizer sees a read past its end.
ParseResult Parse(const std::vector<uint8_t>& frame, RocePacket* packet) {
  return ParseRocePacket(frame.data(), frame.size(), packet);
}
ParseResult Parse(const std::vector<uint8_t>& frame) {
  RocePacket packet;
  return Parse(frame, &packet);
}

TEST(RocePacketTest, FieldsOverIpv4Parse) {
  const auto frame = FromHex(kUcSendOnlyIpv4);
  RocePacket packet;
  ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
  EXPECT_EQ(packet.ip_version, 4);
  EXPECT_EQ(packet.l3_offset, 14);
  EXPECT_EQ(packet.bth_offset, 42);
  EXPECT_EQ(packet.ext_offset, 54);
  EXPECT_EQ(packet.payload_offset, 54);
  EXPECT_EQ(packet.bth.opcode, Opcode::kUcSendOnly);
  EXPECT_EQ(packet.bth.pad, 2);
  EXPECT_EQ(packet.payload_length, 18);
  EXPECT_EQ(packet.icrc_offset, 74);
  EXPECT_EQ(packet.bth.dest_qpn, Qpn{0xD3});
  EXPECT_EQ(packet.source(), Gid::FromIpv4(0xC0A80007));
  EXPECT_EQ(packet.destination(), Gid::FromIpv4(0xC0A80007));
  EXPECT_TRUE(IcrcIsValid(packet));
}

TEST(RocePacketTest, FieldsOverIpv6Parse) {
  const auto frame = FromHex(kUcSendOnlyIpv6);
  RocePacket packet;
  ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
  EXPECT_EQ(packet.ip_version, 6);
  EXPECT_EQ(packet.bth_offset, 62);
  EXPECT_EQ(packet.payload_length, 18);
  EXPECT_EQ(packet.source().raw[1], 0x22);
  EXPECT_EQ(packet.destination().raw[15], 0x24);
  EXPECT_EQ(packet.ecn, 2);  // traffic class 0xE2
  EXPECT_TRUE(IcrcIsValid(packet));
}

TEST(RocePacketTest, ACongestionNotificationParses) {
  const auto frame = FromHex(kCnpFrame);
  RocePacket packet;
  ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
  EXPECT_EQ(packet.bth.opcode, Opcode::kCnp);
  EXPECT_TRUE(packet.bth.becn);
  EXPECT_EQ(packet.ecn, 2);
  EXPECT_EQ(packet.payload_length, 16);
  EXPECT_TRUE(IcrcIsValid(packet));
}

TEST(RocePacketTest, IsBetweenMatchesOnlyItsOwnAddresses) {
  for (const auto& frame : {FromHex(kUcSendOnlyIpv4), FromHex(kUcSendOnlyIpv6)}) {
    RocePacket packet;
    ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
    const Gid source = packet.source(), destination = packet.destination();
    EXPECT_TRUE(packet.IsBetween(source, destination));
    // A bit anywhere in an address, the part that says IPv4 included.
    for (size_t i = 0; i < source.raw.size(); ++i) {
      Gid other = source;
      other.raw[i] ^= 1;
      EXPECT_FALSE(packet.IsBetween(other, destination)) << i;
      other = destination;
      other.raw[i] ^= 1;
      EXPECT_FALSE(packet.IsBetween(source, other)) << i;
    }
  }
}

TEST(RocePacketTest, VlanTagIsSkipped) {
  auto frame = FromHex(kUcSendOnlyIpv4);
  const uint8_t tag[] = {0x81, 0x00, 0x60, 0x05};
  frame.insert(frame.begin() + 12, std::begin(tag), std::end(tag));
  RocePacket packet;
  ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
  EXPECT_EQ(packet.l3_offset, 18);
  EXPECT_TRUE(IcrcIsValid(packet));
}

TEST(RocePacketTest, EthernetPaddingIsIgnored) {
  auto frame = FromHex(kUcSendOnlyIpv4);
  RocePacket packet;
  frame.resize(frame.size() + 7, 0xEE);
  ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
  EXPECT_EQ(packet.icrc_offset, 74);
  EXPECT_TRUE(IcrcIsValid(packet));
}

TEST(RocePacketTest, EveryTruncationIsRefused) {
  for (std::string_view hex : {kUcSendOnlyIpv4, kUcSendOnlyIpv6, kCnpFrame}) {
    const auto frame = FromHex(hex);
    for (size_t length = 0; length < frame.size(); ++length) {
      const std::vector<uint8_t> cut(frame.begin(), frame.begin() + static_cast<long>(length));
      EXPECT_EQ(Parse(cut), ParseResult::kTruncated) << "length " << length;
    }
  }
}

TEST(RocePacketTest, TruncationsWithConsistentLengthsAreSafe) {
  const auto frame = FromHex(kUcSendOnlyIpv4);
  for (size_t length = kBthAt; length < frame.size(); ++length) {
    std::vector<uint8_t> cut(frame.begin(), frame.begin() + static_cast<long>(length));
    StoreBe16(&cut[kIpAt + ipv4::kTotalLength], static_cast<uint16_t>(length - kIpAt));
    UpdateIpv4Checksum(&cut[kIpAt]);
    StoreBe16(&cut[kUdpAt + udp::kLength], static_cast<uint16_t>(length - kUdpAt));
    const ParseResult result = Parse(cut);
    // Two bytes of pad: a packet needs the BTH, them and the ICRC.
    if (length < kBthAt + kBthBytes + kIcrcBytes) {
      EXPECT_EQ(result, ParseResult::kTruncated) << length;
    } else if (length < kBthAt + kBthBytes + 2 + kIcrcBytes) {
      EXPECT_EQ(result, ParseResult::kBadPad) << length;
    } else {
      EXPECT_EQ(result, ParseResult::kOk) << length;
    }
  }
}

TEST(RocePacketTest, ForeignFramesAreNotRoce) {
  auto frame = FromHex(kUcSendOnlyIpv4);
  frame[12] = 0x08;
  frame[13] = 0x06;
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);  // ARP

  frame = FromHex(kUcSendOnlyIpv4);
  frame[kIpAt + ipv4::kProtocol] = kIpProtocolTcp;
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);

  frame = FromHex(kUcSendOnlyIpv4);
  StoreBe16(&frame[kUdpAt + udp::kDestinationPort], kRocePort + 1);
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);

  frame = FromHex(kUcSendOnlyIpv4);
  StoreBe16(&frame[kIpAt + ipv4::kFragment], 1);  // a later fragment has no port
  EXPECT_EQ(Parse(frame), ParseResult::kNotRoce);

  EXPECT_EQ(Parse(std::vector<uint8_t>(65536)), ParseResult::kNotRoce);
}

TEST(RocePacketTest, BadIpHeadersAreRefused) {
  auto frame = FromHex(kUcSendOnlyIpv4);
  frame[kIpAt + ipv4::kTtl] ^= 1;  // the checksum no longer holds
  EXPECT_EQ(Parse(frame), ParseResult::kBadIpHeader);

  frame = FromHex(kUcSendOnlyIpv4);
  StoreBe16(&frame[kIpAt + ipv4::kFragment], kIpv4MoreFragments);
  UpdateIpv4Checksum(&frame[kIpAt]);
  EXPECT_EQ(Parse(frame), ParseResult::kBadIpHeader);

  frame = FromHex(kUcSendOnlyIpv4);
  frame[kIpAt + ipv4::kVersionIhl] = 0x46;
  frame.insert(frame.begin() + kUdpAt, 4, 1);  // one word of no-operation options
  EXPECT_EQ(Parse(frame), ParseResult::kBadIpHeader);
}

TEST(RocePacketTest, UdpLengthMustAgree) {
  for (int difference : {-1, 1}) {
    auto frame = FromHex(kUcSendOnlyIpv4);
    uint8_t* field = &frame[kUdpAt + udp::kLength];
    StoreBe16(field, static_cast<uint16_t>(LoadBe16(field) + difference));
    EXPECT_EQ(Parse(frame), ParseResult::kBadUdpLength);
  }
}

TEST(RocePacketTest, UdpChecksumIsOptionalButChecked) {
  for (std::string_view hex : {kUcSendOnlyIpv4, kUcSendOnlyIpv6}) {
    auto frame = FromHex(hex);
    RocePacket packet;
    ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
    uint8_t* const udp_header = &frame[packet.bth_offset - kUdpBytes];
    const uint16_t checksum =
        UdpChecksum(&frame[packet.l3_offset], packet.ip_version, udp_header,
                    frame.size() - static_cast<size_t>(udp_header - frame.data()));
    StoreBe16(udp_header + udp::kChecksum, checksum);
    ASSERT_EQ(Parse(frame, &packet), ParseResult::kOk);
    EXPECT_TRUE(IcrcIsValid(packet));  // the checksum is masked
    frame.back() ^= 1;
    EXPECT_EQ(Parse(frame), ParseResult::kBadUdpChecksum);
  }
}

TEST(RocePacketTest, BadTransportHeadersAreRefused) {
  auto frame = FromHex(kUcSendOnlyIpv4);
  frame[kBthAt + 1] |= 1;
  EXPECT_EQ(Parse(frame), ParseResult::kBadVersion);

  frame = FromHex(kUcSendOnlyIpv4);
  frame[kBthAt] = 0x15;  // RD RESYNC
  EXPECT_EQ(Parse(frame), ParseResult::kUnknownOpcode);

  frame = FromHex(kUcSendOnlyIpv4);
  frame[kBthAt] = static_cast<uint8_t>(Opcode::kRcReadRequest);  // 20 bytes follow, 16 are RETH's
  EXPECT_EQ(Parse(frame), ParseResult::kBadPad);

  frame = FromHex(kUcSendOnlyIpv4);
  frame[kBthAt] = static_cast<uint8_t>(Opcode::kRcCompareSwap);  // needs 28
  EXPECT_EQ(Parse(frame), ParseResult::kTruncated);
}

TEST(RocePacketTest, EveryResultHasAName) {
  for (int i = 0; i <= static_cast<int>(ParseResult::kBadPad); ++i) {
    EXPECT_STRNE(ParseResultName(static_cast<ParseResult>(i)), "?");
  }
}

TEST(DestinationQpnTest, IsFoundOverBothIpVersionsAndBehindATag) {
  for (const bool ipv4 : {true, false}) {
    for (const bool tagged : {true, false}) {
      std::vector<uint8_t> frame(14 + (tagged ? 4 : 0) + (ipv4 ? 20 : 40) + 8 + 12);
      StoreBe16(&frame[12], tagged ? 0x8100 : ipv4 ? 0x0800 : 0x86DD);
      if (tagged) StoreBe16(&frame[16], ipv4 ? 0x0800 : 0x86DD);
      StoreBe32(&frame[frame.size() - 8], 0xFF123456);
      EXPECT_EQ(DestinationQpn(frame.data(), frame.size()), Qpn{0x123456});
      for (size_t length = 0; length < frame.size(); ++length) {
        EXPECT_FALSE(DestinationQpn(frame.data(), length));
      }
    }
  }
}

TEST(IsRoceFrameTest, DependsOnlyOnTheHeaders) {
  for (const auto hex : {kUcSendOnlyIpv4, kUcSendOnlyIpv6, kCnpFrame}) {
    auto frame = FromHex(hex);
    EXPECT_TRUE(IsRoceFrame(frame.data(), frame.size()));
    const size_t udp = frame[12] == 0x08 ? 34 : 54;
    frame.resize(udp + 8);  // what follows does not matter
    EXPECT_TRUE(IsRoceFrame(frame.data(), frame.size()));
    frame[udp + 3] ^= 1;  // another port
    EXPECT_FALSE(IsRoceFrame(frame.data(), frame.size()));
  }
  const auto arp = FromHex(
      "ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002");
  EXPECT_FALSE(IsRoceFrame(arp.data(), arp.size()));
}

}  // namespace
}  // namespace pollux::wire
