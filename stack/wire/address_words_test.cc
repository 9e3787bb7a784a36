#include "stack/wire/address_words.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/wire/test_frames.h"

namespace pollux::wire {
namespace {

RocePacket Parsed(const std::vector<uint8_t>& frame) {
  RocePacket packet;
  EXPECT_EQ(ParseRocePacket(frame.data(), frame.size(), &packet), ParseResult::kOk);
  return packet;
}

TEST(AddressWordsTest, EveryAddressByteIsCompared) {
  std::vector<uint8_t> frame = FromHex(kUcSendOnlyIpv4);
  const RocePacket packet = Parsed(frame);
  const AddressWords words(packet);
  constexpr size_t kIpAddresses = kEthernetBytes + ipv4::kSource;
  for (size_t i = 0; i < frame.size(); ++i) {
    EXPECT_TRUE(words.AreOf(packet));
    frame[i] ^= 1;
    const bool address = i < kEthernetBytes || (i >= kIpAddresses && i < kIpAddresses + 8);
    EXPECT_EQ(words.AreOf(packet), !address) << i;
    frame[i] ^= 1;
  }
}

TEST(AddressWordsTest, EmptyIpv6AndVlanAddressesMatchNothing) {
  std::vector<uint8_t> frame = FromHex(kUcSendOnlyIpv4);
  std::vector<uint8_t> frame6 = FromHex(kUcSendOnlyIpv6);
  EXPECT_FALSE(AddressWords().AreOf(Parsed(frame)));
  EXPECT_FALSE(AddressWords(Parsed(frame6)).AreOf(Parsed(frame6)));
  const uint8_t tag[] = {0x81, 0x00, 0x00, 0x07};
  frame.insert(frame.begin() + ethernet::kType, std::begin(tag), std::end(tag));
  EXPECT_FALSE(AddressWords(Parsed(frame)).AreOf(Parsed(frame)));
}

}  // namespace
}  // namespace pollux::wire
