#include "stack/wire/bth.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

namespace pollux::wire {
namespace {

TEST(OpcodeTableTest, KnowsExactlyTheDeclaredOpcodes) {
  std::set<int> known;
  for (int i = 0; i <= 0x14; ++i) known.insert(i);
  known.insert({0x16, 0x17, 0x1C, 0x1D});
  for (int i = 0x20; i <= 0x2B; ++i) known.insert(i);
  known.insert({0x64, 0x65, 0x81});
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(FindOpcode(static_cast<uint8_t>(i)) != nullptr, known.contains(i)) << i;
  }
}

TEST(OpcodeTableTest, NamesAreDistinctAndStartWithTheTransport) {
  std::set<std::string> names;
  for (int i = 0; i < 256; ++i) {
    const OpcodeInfo* info = FindOpcode(static_cast<uint8_t>(i));
    if (info == nullptr) continue;
    EXPECT_TRUE(names.insert(info->name).second) << info->name;
    const char* const prefix[] = {"RC ", "UC ", "UD ", "CNP"};
    EXPECT_EQ(std::string(info->name).substr(0, 3), prefix[static_cast<int>(info->transport)]);
  }
}

// IB specification table 38, by operation.
TEST(OpcodeTableTest, HeadersMatchTheOperation) {
  for (int i = 0; i < 256; ++i) {
    const OpcodeInfo* info = FindOpcode(static_cast<uint8_t>(i));
    if (info == nullptr) continue;
    SCOPED_TRACE(info->name);
    const bool first_or_only = (info->position & (kFirst | kOnly)) != 0;
    EXPECT_EQ((info->headers & kHasDeth) != 0, info->transport == Transport::kUd);
    EXPECT_EQ((info->headers & kHasReth) != 0,
              info->operation == Operation::kReadRequest ||
                  info->operation == Operation::kAtomicWrite ||
                  info->operation == Operation::kFlush ||
                  (info->operation == Operation::kWrite && first_or_only));
    EXPECT_EQ((info->headers & kHasFeth) != 0, info->operation == Operation::kFlush);
    EXPECT_EQ((info->headers & kHasAtomicEth) != 0, info->operation == Operation::kAtomic);
    EXPECT_EQ((info->headers & kHasAeth) != 0, info->is_response && info->position != kMiddle);
    EXPECT_EQ((info->headers & kHasAtomicAckEth) != 0, info->operation == Operation::kAtomicAck);
    const std::string name = info->name;
    EXPECT_EQ((info->headers & kHasImmediate) != 0, name.ends_with("Immediate"));
    EXPECT_EQ((info->headers & kHasIeth) != 0, name.ends_with("Invalidate"));
    EXPECT_TRUE(info->position == kFirst || info->position == kMiddle || info->position == kLast ||
                info->position == kOnly);
  }
}

TEST(OpcodeTableTest, OffsetsOfExtendedHeadersFollowTheirOrder) {
  const OpcodeInfo& write = *FindOpcode(static_cast<uint8_t>(Opcode::kRcWriteOnlyImm));
  EXPECT_EQ(ExtHeaderOffset(write.headers, kHasReth), 0);
  EXPECT_EQ(ExtHeaderOffset(write.headers, kHasImmediate), 16);
  EXPECT_EQ(write.header_bytes, 20);
  const OpcodeInfo& flush = *FindOpcode(static_cast<uint8_t>(Opcode::kRcFlush));
  EXPECT_EQ(ExtHeaderOffset(flush.headers, kHasFeth), 0);
  EXPECT_EQ(ExtHeaderOffset(flush.headers, kHasReth), 4);
  EXPECT_EQ(flush.header_bytes, 20);
  const OpcodeInfo& atomic = *FindOpcode(static_cast<uint8_t>(Opcode::kRcAtomicAcknowledge));
  EXPECT_EQ(ExtHeaderOffset(atomic.headers, kHasAtomicAckEth), 4);
  EXPECT_EQ(atomic.header_bytes, 12);
  const OpcodeInfo& ud = *FindOpcode(static_cast<uint8_t>(Opcode::kUdSendOnlyImm));
  EXPECT_EQ(ExtHeaderOffset(ud.headers, kHasImmediate), 8);
  EXPECT_EQ(ud.header_bytes, 12);
}

TEST(BthTest, EmitsFieldsAtTheirOffsets) {
  Bth bth;
  bth.opcode = Opcode::kRcWriteLast;
  bth.solicited = true;
  bth.pad = 3;
  bth.pkey = 0x8001;
  bth.becn = true;
  bth.dest_qpn = Qpn{0xABCDEF};
  bth.ack_request = true;
  bth.psn = Psn(0x123456);
  std::array<uint8_t, kBthBytes> bytes;
  EmitBth(bth, bytes.data());
  const std::array<uint8_t, kBthBytes> expected = {0x08, 0xB0, 0x80, 0x01, 0x40, 0xAB,
                                                   0xCD, 0xEF, 0x80, 0x12, 0x34, 0x56};
  EXPECT_EQ(bytes, expected);
}

TEST(BthTest, EveryBitRoundTrips) {
  // All bits but the reserved ones: six in byte 4, seven in byte 8.
  for (size_t bit = 0; bit < kBthBytes * 8; ++bit) {
    const size_t byte = bit / 8;
    const auto mask = static_cast<uint8_t>(0x80 >> bit % 8);
    if ((byte == 4 && mask < 0x40) || (byte == 8 && mask < 0x80)) continue;
    std::array<uint8_t, kBthBytes> bytes{};
    bytes[byte] = mask;
    std::array<uint8_t, kBthBytes> again;
    again.fill(0xFF);
    EmitBth(ParseBth(bytes.data()), again.data());
    EXPECT_EQ(again, bytes) << "byte " << byte << " mask " << int{mask};
  }
}

TEST(PkeyTest, PkeysOfTwoLimitedMembersDoNotMatch) {
  EXPECT_TRUE(PkeysMatch(0xFFFF, 0xFFFF));
  EXPECT_TRUE(PkeysMatch(0xFFFF, 0x7FFF));
  EXPECT_TRUE(PkeysMatch(0x7FFF, 0xFFFF));
  EXPECT_FALSE(PkeysMatch(0x7FFF, 0x7FFF));  // two limited members
  EXPECT_FALSE(PkeysMatch(0x8000, 0x8000));  // the invalid key
  EXPECT_FALSE(PkeysMatch(0xFFFF, 0xFFFE));
}

}  // namespace
}  // namespace pollux::wire
