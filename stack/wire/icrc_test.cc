#include "stack/wire/icrc.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "stack/base/random.h"
#include "stack/wire/test_frames.h"

namespace pollux::wire {
namespace {

std::vector<uint8_t> Pattern(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 167 + (i >> 8));
  return bytes;
}

uint32_t Zlib(uint32_t crc, const uint8_t* data, size_t n) {
  // zlib takes a null pointer, as an empty vector has it, as a request for its initial value.
  return n == 0 ? crc : static_cast<uint32_t>(crc32(crc, data, static_cast<uInt>(n)));
}

TEST(Crc32Test, StartValueIsEightBytesOfOnes) {
  const std::array<uint8_t, 8> ones = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_EQ(Crc32(0, ones.data(), ones.size()), kIcrcStart);
}

TEST(Crc32Test, AgreesWithZlibAtEveryShortLengthAndAlignment) {
  const auto bytes = Pattern(600);
  for (size_t start = 0; start < 17; ++start) {
    for (size_t n = 0; n <= 520; ++n) {
      ASSERT_EQ(Crc32(kIcrcStart, bytes.data() + start, n),
                Zlib(kIcrcStart, bytes.data() + start, n))
          << start << " " << n;
    }
  }
}

TEST(Crc32Test, ChainsOverAnySplit) {
  const auto bytes = Pattern(200);
  const uint32_t whole = Zlib(kIcrcStart, bytes.data(), bytes.size());
  for (size_t split = 0; split <= bytes.size(); ++split) {
    const uint32_t head = Crc32(kIcrcStart, bytes.data(), split);
    EXPECT_EQ(Crc32(head, bytes.data() + split, bytes.size() - split), whole) << split;
  }
}

RocePacket ParseOk(const std::vector<uint8_t>& frame) {
  RocePacket packet;
  EXPECT_EQ(ParseRocePacket(frame.data(), frame.size(), &packet), ParseResult::kOk);
  return packet;
}

TEST(IcrcTest, StoredLeastSignificantByteFirst) {
  const auto frame = FromHex(kUcSendOnlyIpv4);
  EXPECT_EQ(ComputeIcrc(ParseOk(frame)), 0xF353F378u);
  std::array<uint8_t, 4> bytes;
  EmitIcrc(0xF353F378u, bytes.data());
  EXPECT_EQ(bytes, (std::array<uint8_t, 4>{0x78, 0xF3, 0x53, 0xF3}));
}

// Flips each bit from the IP header on: the ICRC must notice all but the masked ones.
void ExpectExactlyTheseMasked(std::string_view hex, size_t l3, std::vector<size_t> masked_bytes,
                              bool low_nibble_of_first) {
  const auto frame = FromHex(hex);
  const RocePacket packet = ParseOk(frame);
  for (size_t byte = l3; byte < frame.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = frame;
      changed[byte] ^= static_cast<uint8_t>(1 << bit);
      RocePacket view = packet;  // the view of the unchanged frame, over the changed bytes
      view.frame = changed.data();
      const size_t at = byte - l3;
      bool masked = std::find(masked_bytes.begin(), masked_bytes.end(), at) != masked_bytes.end();
      if (at == 0 && low_nibble_of_first) masked = bit < 4;
      EXPECT_EQ(IcrcIsValid(view), masked) << "byte " << at << " bit " << bit;
    }
  }
}

// Whatever a packet holds and however long it is.
TEST(IcrcTest, EveryWayGivesTheSame) {
  constexpr size_t kRoom = 16;  // an Ethernet header, and two bytes to align by
  Random random(1);
  for (uint8_t ip_version : {4, 6}) {
    const size_t header_bytes = (ip_version == 4 ? 20 : 40) + 8 + kBthBytes;
    for (size_t bytes = header_bytes; bytes < header_bytes + 700; ++bytes) {
      std::vector<uint8_t> frame(kRoom + bytes);
      for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random.Next32());
      const uint8_t* l3 = frame.data() + kRoom;
      const uint32_t expected = IcrcByTable(l3, ip_version, bytes);
      ASSERT_EQ(Icrc(l3, ip_version, bytes), expected) << bytes;
      ASSERT_EQ(IcrcByIsal(l3, ip_version, bytes), expected) << bytes;
      if (bytes % 4 == 0 && HasPclmul()) {
        ASSERT_EQ(IcrcByPclmul(l3, ip_version, bytes), expected) << bytes;
      }
    }
  }
}

TEST(IcrcTest, Ipv4Mask) {
  ExpectExactlyTheseMasked(kUcSendOnlyIpv4, 14, {1, 8, 10, 11, 26, 27, 32}, false);
}

TEST(IcrcTest, Ipv6Mask) {
  ExpectExactlyTheseMasked(kUcSendOnlyIpv6, 14, {1, 2, 3, 7, 46, 47, 52}, true);
}

}  // namespace
}  // namespace pollux::wire
