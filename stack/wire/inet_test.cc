#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/base/random.h"
#include "stack/wire/arp.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/test_frames.h"
#include "stack/wire/udp.h"

namespace pollux::wire {
namespace {

using Buffer = std::vector<uint8_t>;

TEST(ChecksumTest, TheExampleOfRfc1071Matches) {
  const Buffer data = {0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7};
  EXPECT_EQ(InternetChecksum(data.data(), data.size()), static_cast<uint16_t>(~0xDDF2));
}

TEST(ChecksumTest, OddLengthIsPaddedWithZero) {
  const Buffer odd = {0x12, 0x34, 0x56};
  const Buffer even = {0x12, 0x34, 0x56, 0x00};
  EXPECT_EQ(InternetChecksum(odd.data(), 3), InternetChecksum(even.data(), 4));
}

TEST(ChecksumTest, CarriesFoldBackIn) {
  const Buffer ones(64, 0xFF);
  EXPECT_EQ(InternetChecksum(ones.data(), ones.size()), 0);
}

TEST(ChecksumTest, ShortSumsFoldAsLongOnes) {
  Random random(Random::Seed{});
  for (const uint32_t sum : {0u, 1u, 0xFFFFu, 0x10000u, 0xFFFF0000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(ChecksumFold(sum), ChecksumFinish(sum)) << sum;
  }
  for (int round = 0; round < 10'000; ++round) {
    const uint32_t sum = random.Next32();
    EXPECT_EQ(ChecksumFold(sum), ChecksumFinish(sum)) << sum;
  }
}

TEST(ChecksumTest, Ipv4HeaderChecksumMatchesTheGeneralOne) {
  EXPECT_FALSE(Ipv4ChecksumIsValid(Buffer(kIpv4Bytes, 0).data()));
  EXPECT_TRUE(Ipv4ChecksumIsValid(Buffer(kIpv4Bytes, 0xFF).data()));
  Random random(Random::Seed{});
  for (int round = 0; round < 10'000; ++round) {
    Buffer header(kIpv4Bytes);
    // Many carries in every other one.
    for (uint8_t& byte : header) {
      byte = static_cast<uint8_t>(round % 2 == 0 ? random.Next32() : 0xFF - random.Below(2));
    }
    EXPECT_EQ(Ipv4ChecksumIsValid(header.data()), InternetChecksum(header.data(), kIpv4Bytes) == 0);
    StoreBe16(&header[ipv4::kChecksum], 0);
    StoreBe16(&header[ipv4::kChecksum], InternetChecksum(header.data(), kIpv4Bytes));
    EXPECT_TRUE(Ipv4ChecksumIsValid(header.data()));
    header[random.Below(kIpv4Bytes)] ^= static_cast<uint8_t>(1 << random.Below(8));
    EXPECT_FALSE(Ipv4ChecksumIsValid(header.data()));
  }
}

TEST(EthernetTest, HeadersRoundTripWithAndWithoutTag) {
  EthernetHeader header;
  header.destination = kBroadcastMac;
  header.source = {2, 0, 0, 0, 0, 1};
  header.ether_type = kEtherTypeArp;
  Buffer buffer(kEthernetBytes);
  EXPECT_EQ(EmitEthernet(header, buffer.data()), kEthernetBytes);
  EXPECT_EQ(ParseEthernet(buffer.data(), buffer.size()), header);
  EXPECT_FALSE(ParseEthernet(buffer.data(), kEthernetBytes - 1));

  header.vlan_tci = 0x6005;
  buffer.resize(kEthernetBytes + kVlanTagBytes);
  EXPECT_EQ(EmitEthernet(header, buffer.data()), buffer.size());
  EXPECT_EQ(LoadBe16(&buffer[12]), 0x8100);
  EXPECT_EQ(ParseEthernet(buffer.data(), buffer.size()), header);
  EXPECT_FALSE(ParseEthernet(buffer.data(), buffer.size() - 1));
}

TEST(Ipv4Test, ARealHeaderRoundTrips) {
  const auto frame = FromHex(kUcSendOnlyIpv4);
  const auto header = ParseIpv4(&frame[14], frame.size() - 14);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->tos, 1);
  EXPECT_EQ(header->total_length, 64);
  EXPECT_EQ(header->identification, 0x0478);
  EXPECT_EQ(header->fragment, kIpv4DontFragment);
  EXPECT_FALSE(header->IsFragment());
  EXPECT_EQ(header->ttl, 64);
  EXPECT_EQ(header->protocol, kIpProtocolUdp);
  EXPECT_EQ(header->source, 0xC0A80007u);
  Buffer again(kIpv4Bytes);
  EmitIpv4(*header, again.data());
  EXPECT_EQ(again, Buffer(frame.begin() + 14, frame.begin() + 34));
}

TEST(Ipv4Test, InvalidHeadersAreRefused) {
  const auto frame = FromHex(kUcSendOnlyIpv4);
  const Buffer good(frame.begin() + 14, frame.end());
  EXPECT_FALSE(ParseIpv4(good.data(), kIpv4Bytes - 1));
  EXPECT_FALSE(ParseIpv4(good.data(), good.size() - 1));  // less than its total length
  Buffer bad = good;
  bad[8] ^= 1;  // checksum
  EXPECT_FALSE(ParseIpv4(bad.data(), bad.size()));
  bad = good;
  bad[0] = 0x55;
  EXPECT_FALSE(ParseIpv4(bad.data(), bad.size()));
  bad = good;
  bad[0] = 0x44;  // 16 bytes of header
  UpdateIpv4Checksum(bad.data());
  EXPECT_FALSE(ParseIpv4(bad.data(), bad.size()));
  bad = good;
  StoreBe16(&bad[2], 19);  // total length below the header's
  UpdateIpv4Checksum(bad.data());
  EXPECT_FALSE(ParseIpv4(bad.data(), bad.size()));
}

TEST(Ipv4Test, HeaderBytesIncludesOptions) {
  Buffer bytes(24, 1);
  Ipv4Header header;
  header.total_length = 24;
  EmitIpv4(header, bytes.data());
  bytes[0] = 0x46;
  StoreBe16(&bytes[ipv4::kChecksum], 0);
  StoreBe16(&bytes[ipv4::kChecksum], InternetChecksum(bytes.data(), 24));
  const auto parsed = ParseIpv4(bytes.data(), bytes.size());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header_bytes, 24);
}

TEST(Ipv6Test, ARealHeaderRoundTrips) {
  const auto frame = FromHex(kUcSendOnlyIpv6);
  const auto header = ParseIpv6(&frame[14], frame.size() - 14);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->traffic_class, 0xE2);
  EXPECT_EQ(header->flow_label, 0x1FACEu);
  EXPECT_EQ(header->payload_length, 44);
  EXPECT_EQ(header->next_header, kIpProtocolUdp);
  EXPECT_EQ(header->hop_limit, 255);
  Buffer again(kIpv6Bytes);
  EmitIpv6(*header, again.data());
  EXPECT_EQ(again, Buffer(frame.begin() + 14, frame.begin() + 54));
  EXPECT_FALSE(ParseIpv6(&frame[14], frame.size() - 15));
  EXPECT_FALSE(ParseIpv6(&frame[14], kIpv6Bytes - 1));
  auto bad = frame;
  bad[14] = 0x4E;
  EXPECT_FALSE(ParseIpv6(&bad[14], bad.size() - 14));
}

TEST(UdpTest, RoundTripsAndChecksItsLength) {
  const UdpHeader header{49152, 4791, 12, 0xBEEF};
  Buffer buffer(12);
  EmitUdp(header, buffer.data());
  EXPECT_EQ(ParseUdp(buffer.data(), 12), header);
  EXPECT_FALSE(ParseUdp(buffer.data(), 11));
  EXPECT_FALSE(ParseUdp(buffer.data(), 13));
  EXPECT_FALSE(ParseUdp(buffer.data(), 7));
}

TEST(UdpTest, AZeroChecksumIsSentAsAllOnes) {
  // Addresses and ports chosen so that the sum of all is 0xFFFF.
  Buffer packet(kIpv4Bytes + kUdpBytes);
  Ipv4Header ip;
  ip.total_length = static_cast<uint16_t>(packet.size());
  ip.protocol = kIpProtocolUdp;
  EmitIpv4(ip, packet.data());
  uint8_t* const udp_header = &packet[kIpv4Bytes];
  EmitUdp({static_cast<uint16_t>(0xFFFF - 17 - 8 - 8), 0, 8, 0}, udp_header);
  EXPECT_EQ(UdpChecksum(packet.data(), 4, udp_header, 8), 0xFFFF);
  StoreBe16(udp_header + udp::kChecksum, 0xFFFF);
  EXPECT_TRUE(UdpChecksumIsValid(packet.data(), 4, udp_header, 8));
}

TEST(UdpTest, ChecksumCoversAddressesAndData) {
  for (uint8_t version : {4, 6}) {
    const auto frame = FromHex(version == 4 ? kUcSendOnlyIpv4 : kUcSendOnlyIpv6);
    Buffer packet(frame.begin() + 14, frame.end());
    const size_t l4 = version == 4 ? kIpv4Bytes : kIpv6Bytes;
    const size_t length = packet.size() - l4;
    const uint16_t checksum = UdpChecksum(packet.data(), version, &packet[l4], length);
    StoreBe16(&packet[l4 + udp::kChecksum], checksum);
    EXPECT_TRUE(UdpChecksumIsValid(packet.data(), version, &packet[l4], length));
    for (size_t byte : {l4 - 1, l4, l4 + length - 1}) {
      packet[byte] ^= 4;
      EXPECT_FALSE(UdpChecksumIsValid(packet.data(), version, &packet[l4], length)) << byte;
      packet[byte] ^= 4;
    }
  }
}

TEST(ArpTest, ARequestHasTheExpectedBytes) {
  ArpPacket packet;
  packet.sender_mac = {2, 0, 0, 0, 0, 1};
  packet.sender_address = 0xC0000201;
  packet.target_address = 0xC0000202;
  Buffer buffer(kArpBytes);
  EmitArp(packet, buffer.data());
  EXPECT_EQ(buffer, FromHex("0001080006040001020000000001c0000201000000000000c0000202"));
  EXPECT_EQ(ParseArp(buffer.data(), buffer.size()), packet);
  buffer.resize(46);  // Ethernet padding
  EXPECT_EQ(ParseArp(buffer.data(), buffer.size()), packet);
  EXPECT_FALSE(ParseArp(buffer.data(), kArpBytes - 1));
}

TEST(ArpTest, OnlyIpv4OverEthernetIsParsed) {
  for (size_t byte : {0, 1, 2, 3, 4, 5}) {
    Buffer buffer(kArpBytes);
    EmitArp(ArpPacket{}, buffer.data());
    buffer[byte] ^= 1;
    EXPECT_FALSE(ParseArp(buffer.data(), buffer.size())) << byte;
  }
}

TEST(IcmpTest, EchoRoundTripsAndCorruptionIsDetected) {
  Buffer message(kIcmpEchoBytes + 9, 0x5A);  // an odd length
  const IcmpEcho echo{kIcmpEchoRequest, 0x1234, 7};
  EmitIcmpEcho(echo, message.data(), message.size());
  EXPECT_EQ(ParseIcmpEcho(message.data(), message.size()), echo);
  EXPECT_EQ(message.back(), 0x5A);
  for (size_t byte = 0; byte < message.size(); ++byte) {
    message[byte] ^= 0x10;
    EXPECT_FALSE(ParseIcmpEcho(message.data(), message.size())) << byte;
    message[byte] ^= 0x10;
  }
  EXPECT_FALSE(ParseIcmpEcho(message.data(), kIcmpEchoBytes - 1));
}

TEST(IcmpTest, OtherTypesAreNotParsedAsEcho) {
  Buffer message(kIcmpEchoBytes);
  EmitIcmpEcho({3, 0, 0}, message.data(), message.size());  // destination unreachable
  EXPECT_FALSE(ParseIcmpEcho(message.data(), message.size()));
}

}  // namespace
}  // namespace pollux::wire
