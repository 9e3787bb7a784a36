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

TEST(IcrcTest, StartsAfterEightBytesOfOnes) {
  const std::array<uint8_t, 8> ones = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_EQ(Crc32(0, ones.data(), ones.size()), kIcrcStart);
}

RocePacket ParseOk(const std::vector<uint8_t>& frame) {
  RocePacket packet;
  EXPECT_EQ(ParseRocePacket(frame.data(), frame.size(), &packet), ParseResult::kOk);
  return packet;
}

TEST(IcrcTest, IsStoredLeastSignificantByteFirst) {
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

// The choices that there can be, of machines that have no more than this one.
std::vector<IcrcChoice> ChoicesPossibleHere() {
  std::vector<IcrcChoice> choices;
  for (bool has_128 : {false, true}) {
    for (bool has_256 : {false, true}) {
      for (bool has_512 : {false, true}) {
        if (has_128 && !Has(CrcKernel::kFold128)) continue;
        if (has_256 && !Has(CrcKernel::kFold256)) continue;
        if (has_512 && !Has(CrcKernel::kFold512)) continue;
        choices.push_back(ChooseIcrc(has_128, has_256, has_512));
      }
    }
  }
  return choices;
}

// Whatever a packet holds, however long it is and wherever it lies.
TEST(IcrcTest, AllKernelsAndChoicesAgree) {
  const std::vector<IcrcChoice> choices = ChoicesPossibleHere();
  constexpr size_t kMax = 5000;
  constexpr size_t kBefore = 14;  // an Ethernet header
  constexpr size_t kAlignments = 64;
  Random random(1);
  for (uint8_t ip_version : {4, 6}) {
    const size_t header_bytes = (ip_version == 4 ? 20 : 40) + 8 + kBthBytes;
    for (size_t bytes = header_bytes; bytes <= kMax; ++bytes) {
      const size_t room = kBefore + random.Below(kAlignments);
      std::vector<uint8_t> frame(room + bytes);
      for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random.Next32());
      const uint8_t* l3 = frame.data() + room;
      const uint32_t expected = IcrcBy(CrcKernel::kTable, l3, ip_version, bytes);
      ASSERT_EQ(Icrc(l3, ip_version, bytes), expected) << bytes;
      for (CrcKernel kernel : kCrcKernels) {
        if (!Has(kernel)) continue;
        ASSERT_EQ(IcrcBy(kernel, l3, ip_version, bytes), expected) << Name(kernel) << " " << bytes;
      }
      for (const IcrcChoice& choice : choices) {
        ASSERT_EQ(IcrcBy(choice.For(bytes), l3, ip_version, bytes), expected)
            << "up to " << choice.narrow_bytes << ", then " << Name(choice.wide) << ": " << bytes;
      }
    }
  }
}

// The table alone, against another's.
TEST(IcrcTest, TableAgreesWithZlib) {
  const auto frame = FromHex(kUcSendOnlyIpv4);
  const RocePacket packet = ParseOk(frame);
  std::vector<uint8_t> masked(frame.begin() + packet.l3_offset, frame.begin() + packet.icrc_offset);
  for (size_t at : {1, 8, 10, 11, 26, 27, 32}) masked[at] = 0xFF;
  const auto expected =
      static_cast<uint32_t>(crc32(kIcrcStart, masked.data(), static_cast<uInt>(masked.size())));
  EXPECT_EQ(IcrcBy(CrcKernel::kTable, frame.data() + packet.l3_offset, 4, masked.size()), expected);
}

// For each combination of what a machine may have: what is taken for short and for long ones, and
// never what it has not.
TEST(IcrcTest, ChoosesTheWidestAvailableKernel) {
  constexpr auto k128 = CrcKernel::kFold128, k256 = CrcKernel::kFold256;
  constexpr auto k512 = CrcKernel::kFold512, kIsal = CrcKernel::kIsal;
  struct Case {
    bool has_128, has_256, has_512;
    CrcKernel shortest, at_200, longest;
  };
  constexpr Case kCases[] = {
      {false, false, false, kIsal, kIsal, kIsal}, {true, false, false, k128, k128, kIsal},
      {false, true, false, k256, k256, k256},     {true, true, false, k128, k256, k256},
      {false, false, true, k512, k512, k512},     {true, false, true, k128, k512, k512},
      {false, true, true, k512, k512, k512},      {true, true, true, k128, k512, k512},
  };
  for (const Case& machine : kCases) {
    const IcrcChoice choice = ChooseIcrc(machine.has_128, machine.has_256, machine.has_512);
    EXPECT_EQ(choice.For(40), machine.shortest);
    EXPECT_EQ(choice.For(200), machine.at_200);
    EXPECT_EQ(choice.For(5000), machine.longest);
    if (choice.narrow_bytes == 0) continue;
    EXPECT_EQ(choice.For(choice.narrow_bytes), k128);
    EXPECT_EQ(choice.For(choice.narrow_bytes + 4), machine.longest);
  }
}

// Where one is chosen it is one that this machine has.
TEST(IcrcTest, TheChosenKernelIsAvailable) {
  for (size_t bytes = 40; bytes <= 5000; ++bytes) EXPECT_TRUE(Has(IcrcKernel(bytes))) << bytes;
}

TEST(IcrcTest, OnlyVariantIpv4FieldsAreMasked) {
  ExpectExactlyTheseMasked(kUcSendOnlyIpv4, 14, {1, 8, 10, 11, 26, 27, 32}, false);
}

TEST(IcrcTest, OnlyVariantIpv6FieldsAreMasked) {
  ExpectExactlyTheseMasked(kUcSendOnlyIpv6, 14, {1, 2, 3, 7, 46, 47, 52}, true);
}

}  // namespace
}  // namespace pollux::wire
