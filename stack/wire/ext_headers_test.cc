#include "stack/wire/ext_headers.h"

#include <gtest/gtest.h>

#include <array>

namespace pollux::wire {
namespace {

template <size_t kBytes>
std::array<uint8_t, kBytes> Counting() {
  std::array<uint8_t, kBytes> bytes;
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<uint8_t>(i + 1);
  return bytes;
}

TEST(ExtHeadersTest, RethRoundTrips) {
  const auto bytes = Counting<kRethBytes>();
  const Reth reth = ParseReth(bytes.data());
  EXPECT_EQ(reth.address, 0x0102030405060708u);
  EXPECT_EQ(reth.rkey, 0x090A0B0Cu);
  EXPECT_EQ(reth.length, 0x0D0E0F10u);
  std::array<uint8_t, kRethBytes> again;
  EmitReth(reth, again.data());
  EXPECT_EQ(again, bytes);
}

TEST(ExtHeadersTest, FethIsInTheLowestSixBits) {
  const std::array<uint8_t, kFethBytes> bytes = {0x01, 0x02, 0x03, 0xD2};
  const Feth feth = ParseFeth(bytes.data());
  EXPECT_EQ(feth, (Feth{.placement = kFlushPersistent, .selectivity = kFlushRegion}));
  std::array<uint8_t, kFethBytes> again;
  EmitFeth(feth, again.data());
  EXPECT_EQ(again, (std::array<uint8_t, kFethBytes>{0, 0, 0, 0x12})) << "reserved bits are zero";
}

TEST(ExtHeadersTest, AethRoundTrips) {
  const auto bytes = Counting<kAethBytes>();
  EXPECT_EQ(ParseAeth(bytes.data()), (Aeth{0x01, 0x020304}));
  std::array<uint8_t, kAethBytes> again;
  EmitAeth(ParseAeth(bytes.data()), again.data());
  EXPECT_EQ(again, bytes);
}

TEST(ExtHeadersTest, DethReservedByteIsZero) {
  auto bytes = Counting<kDethBytes>();
  EXPECT_EQ(ParseDeth(bytes.data()), (Deth{0x01020304, Qpn{0x060708}}));
  std::array<uint8_t, kDethBytes> again;
  EmitDeth(ParseDeth(bytes.data()), again.data());
  bytes[4] = 0;
  EXPECT_EQ(again, bytes);
}

TEST(ExtHeadersTest, AtomicEthRoundTrips) {
  const auto bytes = Counting<kAtomicEthBytes>();
  const AtomicEth atomic = ParseAtomicEth(bytes.data());
  EXPECT_EQ(atomic.address, 0x0102030405060708u);
  EXPECT_EQ(atomic.rkey, 0x090A0B0Cu);
  EXPECT_EQ(atomic.swap_or_add, 0x0D0E0F1011121314u);
  EXPECT_EQ(atomic.compare, 0x15161718191A1B1Cu);
  std::array<uint8_t, kAtomicEthBytes> again;
  EmitAtomicEth(atomic, again.data());
  EXPECT_EQ(again, bytes);
}

TEST(ExtHeadersTest, AtomicAckEthAndIethRoundTrip) {
  const auto eight = Counting<kAtomicAckEthBytes>();
  EXPECT_EQ(ParseAtomicAckEth(eight.data()), 0x0102030405060708u);
  std::array<uint8_t, kAtomicAckEthBytes> again8;
  EmitAtomicAckEth(0x0102030405060708u, again8.data());
  EXPECT_EQ(again8, eight);

  const auto four = Counting<kIethBytes>();
  EXPECT_EQ(ParseIeth(four.data()), 0x01020304u);
  std::array<uint8_t, kIethBytes> again4;
  EmitIeth(0x01020304, again4.data());
  EXPECT_EQ(again4, four);
  // Opaque: not swapped either way.
  EXPECT_EQ(ParseImmediate(four.data()), 0x04030201u);
  EmitImmediate(0x04030201, again4.data());
  EXPECT_EQ(again4, four);
}

TEST(AethSyndromeTest, SyndromesHaveTheirClass) {
  EXPECT_TRUE(IsAck(0x00));
  EXPECT_TRUE(IsAck(kAckNoCredits));
  EXPECT_FALSE(IsAck(0x20));
  EXPECT_TRUE(IsRnrNak(0x20));
  EXPECT_TRUE(IsRnrNak(0x3F));
  EXPECT_FALSE(IsRnrNak(0x40));  // reserved
  EXPECT_FALSE(IsNak(0x5F));
  EXPECT_TRUE(IsNak(kNakPsnSequence));
  EXPECT_TRUE(IsNak(kNakRemoteOperational));
  EXPECT_FALSE(IsNak(0x80));
}

TEST(AethSyndromeTest, SyndromesHaveTheirName) {
  EXPECT_STREQ(SyndromeName(kNakPsnSequence), "NAK PSN sequence error");
  EXPECT_STREQ(SyndromeName(kNakInvalidRequest), "NAK invalid request");
  EXPECT_STREQ(SyndromeName(kNakRemoteAccess), "NAK remote access error");
  EXPECT_STREQ(SyndromeName(kNakRemoteOperational), "NAK remote operational error");
  EXPECT_STREQ(SyndromeName(0x20), "RNR NAK");
}

// From code 2 on, delays double every second code, and the odd ones lie 1.5 times above.
TEST(RnrTimerTest, FollowsTheSeriesOfTheSpecification) {
  EXPECT_EQ(RnrDelayUs(0), 655360u);
  EXPECT_EQ(RnrDelayUs(1), 10u);
  EXPECT_EQ(RnrDelayUs(31), 491520u);
  for (uint8_t code = 2; code + 2 < 32; code += 2) {
    EXPECT_EQ(RnrDelayUs(code + 2), 2 * RnrDelayUs(code)) << int{code};
    EXPECT_EQ(RnrDelayUs(code + 1) * 2, RnrDelayUs(code) * 3) << int{code};
  }
}

TEST(TimeoutCodeTest, StartsAtFourMicrosecondsAndDoubles) {
  EXPECT_EQ(TimeoutCodeNs(0), 0u);
  EXPECT_EQ(TimeoutCodeNs(1), 8192u);
  EXPECT_EQ(TimeoutCodeNs(14), 67108864u);
  EXPECT_EQ(TimeoutCodeNs(31), 4096ull << 31);
}

}  // namespace
}  // namespace pollux::wire
