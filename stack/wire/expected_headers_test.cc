#include "stack/wire/expected_headers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/wire/test_frames.h"

namespace pollux::wire {
namespace {

constexpr size_t kExpectedIpAt = kEthernetBytes;
constexpr size_t kExpectedUdpAt = kExpectedIpAt + kIpv4Bytes;
constexpr size_t kExpectedBthAt = kExpectedUdpAt + kUdpBytes;

void RenewIpChecksum(std::vector<uint8_t>& frame) {
  StoreBe16(&frame[kExpectedIpAt + ipv4::kChecksum], 0);
  StoreBe16(&frame[kExpectedIpAt + ipv4::kChecksum],
            InternetChecksum(&frame[kExpectedIpAt], kIpv4Bytes));
}

class ExpectedHeadersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    frame_ = FromHex(kUcSendOnlyIpv4);
    ASSERT_EQ(ParseRocePacket(frame_.data(), frame_.size(), &learned_), ParseResult::kOk);
    headers_.Learn(learned_);
  }
  // In a heap block of exactly the frame's size, so that a sanitizer sees a read past its end.
  bool Parses(const std::vector<uint8_t>& frame) {
    const std::vector<uint8_t> exact(frame.begin(), frame.end());
    RocePacket packet;
    return headers_.Parse(exact.data(), exact.size(), &packet);
  }

  std::vector<uint8_t> frame_;
  RocePacket learned_;
  ExpectedHeaders headers_;
};

TEST_F(ExpectedHeadersTest, ParseMatchesTheFullParser) {
  RocePacket packet;
  ASSERT_TRUE(headers_.Parse(frame_.data(), frame_.size(), &packet));
  EXPECT_EQ(packet.frame, learned_.frame);
  EXPECT_EQ(packet.ip_version, learned_.ip_version);
  EXPECT_EQ(packet.ecn, learned_.ecn);
  EXPECT_EQ(packet.l3_offset, learned_.l3_offset);
  EXPECT_EQ(packet.bth_offset, learned_.bth_offset);
  EXPECT_EQ(packet.ext_offset, learned_.ext_offset);
  EXPECT_EQ(packet.payload_offset, learned_.payload_offset);
  EXPECT_EQ(packet.payload_length, learned_.payload_length);
  EXPECT_EQ(packet.icrc_offset, learned_.icrc_offset);
  EXPECT_EQ(packet.info, learned_.info);
  EXPECT_EQ(packet.bth.psn, learned_.bth.psn);
  EXPECT_EQ(packet.bth.dest_qpn, learned_.bth.dest_qpn);
  EXPECT_EQ(ExpectedHeaders::DestQpn(frame_.data()), learned_.bth.dest_qpn);
}

TEST_F(ExpectedHeadersTest, ParseSinglePacketReturnsTheFieldsOfThePacket) {
  ExpectedHeaders::SinglePacketMessage message;
  ASSERT_TRUE(headers_.ParseSinglePacket(frame_.data(), frame_.size(), &message));
  EXPECT_EQ(message.ext, frame_.data() + learned_.ext_offset);
  EXPECT_EQ(message.ext_bytes, learned_.payload_length);
  EXPECT_EQ(frame_.data() + learned_.l3_offset + message.l3_bytes,
            frame_.data() + learned_.icrc_offset);
  EXPECT_EQ(message.psn, learned_.bth.psn);
  EXPECT_EQ(message.ack_request, learned_.bth.ack_request);
  EXPECT_EQ(message.solicited, learned_.bth.solicited);
  frame_[kExpectedBthAt + bth_fields::kFlags] |= bth_fields::kSolicitedBit;
  frame_[kExpectedBthAt + bth_fields::kAckRequest] |= bth_fields::kAckRequestBit;
  ASSERT_TRUE(headers_.ParseSinglePacket(frame_.data(), frame_.size(), &message));
  EXPECT_TRUE(message.solicited);
  EXPECT_TRUE(message.ack_request);
}

// Whatever bit of the frame is another one, also with a right IP checksum.
TEST_F(ExpectedHeadersTest, AcceptsOnlyFramesThatTheFullParserParsesEqually) {
  int taken = 0;
  for (size_t bit = 0; bit < 8 * frame_.size(); ++bit) {
    for (const bool checksummed : {false, true}) {
      std::vector<uint8_t> other = frame_;
      other[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      if (checksummed) RenewIpChecksum(other);
      RocePacket full, fast;
      const ParseResult result = ParseRocePacket(other.data(), other.size(), &full);
      ExpectedHeaders::SinglePacketMessage message;
      const bool is_single_packet =
          headers_.ParseSinglePacket(other.data(), other.size(), &message);
      if (!headers_.Parse(other.data(), other.size(), &fast)) {
        // ParseSinglePacket() leaves the opcode to its caller.
        EXPECT_TRUE(!is_single_packet || result != ParseResult::kOk ||
                    bit / 8 == kExpectedBthAt + bth_fields::kOpcode)
            << bit;
        continue;
      }
      ++taken;
      ASSERT_EQ(result, ParseResult::kOk) << bit;
      EXPECT_EQ(std::memcmp(other.data(), frame_.data(), kEthernetBytes), 0) << bit;
      EXPECT_EQ(full.source(), learned_.source()) << bit;
      EXPECT_EQ(full.destination(), learned_.destination()) << bit;
      EXPECT_EQ(full.bth.dest_qpn, learned_.bth.dest_qpn) << bit;
      EXPECT_EQ(full.bth.pkey, learned_.bth.pkey) << bit;
      EXPECT_EQ(fast.payload_offset, full.payload_offset) << bit;
      EXPECT_EQ(fast.payload_length, full.payload_length) << bit;
      EXPECT_EQ(fast.icrc_offset, full.icrc_offset) << bit;
      EXPECT_EQ(fast.ecn, full.ecn) << bit;
      EXPECT_EQ(is_single_packet, full.ecn != kCe) << bit;
    }
  }
  EXPECT_GT(taken, 0);
}

TEST_F(ExpectedHeadersTest, FieldsThatDifferBetweenPacketsOfAFlowMayDiffer) {
  StoreBe16(&frame_[kExpectedIpAt + ipv4::kIdentification], 0xABCD);
  frame_[kExpectedIpAt + ipv4::kTtl] = 7;
  frame_[kExpectedIpAt + ipv4::kTos] = 0xB8 | kEct0;
  StoreBe16(&frame_[kExpectedUdpAt + udp::kSourcePort], 54321);
  RenewIpChecksum(frame_);
  StoreBe32(&frame_[kExpectedBthAt + bth_fields::kAckRequest], 0x80ABCDEF);
  EXPECT_TRUE(Parses(frame_));
}

TEST_F(ExpectedHeadersTest, ContradictoryLengthsAreRefused) {
  for (const size_t shorter : {1u, 4u, 20u}) {
    std::vector<uint8_t> cut(frame_.begin(), frame_.end() - static_cast<ptrdiff_t>(shorter));
    EXPECT_FALSE(Parses(cut)) << shorter;
  }
  // As short frames are on Ethernet.
  std::vector<uint8_t> padded = frame_;
  padded.resize(frame_.size() + 6);
  EXPECT_TRUE(Parses(padded));
  std::vector<uint8_t> udp_differs = frame_;
  StoreBe16(&udp_differs[kExpectedUdpAt + udp::kLength], 40);
  EXPECT_FALSE(Parses(udp_differs));
}

TEST_F(ExpectedHeadersTest, NothingIsExpectedInitiallyOrAfterForget) {
  RocePacket packet;
  const ExpectedHeaders none;
  EXPECT_FALSE(none.Parse(frame_.data(), frame_.size(), &packet));
  const std::vector<uint8_t> zeros(frame_.size());
  EXPECT_FALSE(none.Parse(zeros.data(), zeros.size(), &packet));
  headers_.Forget();
  EXPECT_FALSE(Parses(frame_));
}

TEST_F(ExpectedHeadersTest, APacketOverIpv6IsNotLearned) {
  const std::vector<uint8_t> ipv6 = FromHex(kUcSendOnlyIpv6);
  RocePacket packet;
  ASSERT_EQ(ParseRocePacket(ipv6.data(), ipv6.size(), &packet), ParseResult::kOk);
  headers_.Learn(packet);
  EXPECT_FALSE(Parses(ipv6));
  EXPECT_FALSE(Parses(frame_));
}

}  // namespace
}  // namespace pollux::wire
