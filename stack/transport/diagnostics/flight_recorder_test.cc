#include "stack/transport/diagnostics/flight_recorder.h"

#include <gtest/gtest.h>

#include "stack/wire/bth.h"

namespace pollux::transport {
namespace {

constexpr auto kSendOnly = static_cast<uint8_t>(wire::Opcode::kRcSendOnly);
constexpr auto kAck = static_cast<uint8_t>(wire::Opcode::kRcAcknowledge);

TEST(FlightRecorderTest, IsEmptyAtFirst) { EXPECT_TRUE(FlightRecorder().Entries().empty()); }

TEST(FlightRecorderTest, ConsecutivePacketsAreOneEntry) {
  FlightRecorder recorder;
  for (uint32_t i = 0; i < 10; ++i) {
    recorder.Packet(FlightKind::kSent, kSendOnly, Psn(0xFFFF00) + i, 64, 100 + i);
  }
  const auto entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].kind, FlightKind::kSent);
  EXPECT_EQ(entries[0].code, kSendOnly);
  EXPECT_EQ(entries[0].detail, 64);
  EXPECT_EQ(entries[0].psn, Psn(0xFFFF00));
  EXPECT_EQ(entries[0].count, 10u);
  EXPECT_EQ(entries[0].time_ns, 109u) << "of the last";
}

TEST(FlightRecorderTest, PacketsThatAreRecordedTogetherContinueARun) {
  FlightRecorder recorder;
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(5), 64, 1);
  recorder.Packets(FlightKind::kSent, kSendOnly, Psn(6), 64, 3, 2);
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(9), 64, 3);
  recorder.Packets(FlightKind::kSent, kSendOnly, Psn(10), 65, 2, 4);
  const auto entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].count, 5u);
  EXPECT_EQ(entries[0].time_ns, 3u);
  EXPECT_EQ(entries[1].psn, Psn(10));
  EXPECT_EQ(entries[1].count, 2u);
}

TEST(FlightRecorderTest, APacketThatDiffersStartsANewEntry) {
  FlightRecorder recorder;
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(5), 64, 1);
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(7), 64, 2);      // a gap
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(7), 64, 3);      // sent again
  recorder.Packet(FlightKind::kReceived, kSendOnly, Psn(8), 64, 4);  // direction
  recorder.Packet(FlightKind::kReceived, kSendOnly, Psn(9), 65, 5);  // size
  recorder.Packet(FlightKind::kReceived, kAck, Psn(10), 65, 6);      // opcode
  recorder.Note(FlightKind::kQpState, 0, 0, 7);
  recorder.Note(FlightKind::kQpState, 0, 0, 8);
  EXPECT_EQ(recorder.Entries().size(), 8u);
}

TEST(FlightRecorderTest, ARunEndsWherePsnsWrap) {
  FlightRecorder recorder;
  // An opcode and the one after it: the wrap must not count one up to the other.
  recorder.Packet(FlightKind::kSent, 0x00, Psn(0xFFFFFE), 0xFFFF, 1);
  recorder.Packet(FlightKind::kSent, 0x00, Psn(0xFFFFFF), 0xFFFF, 2);
  recorder.Packet(FlightKind::kSent, 0x01, Psn(0), 0xFFFF, 3);
  recorder.Packet(FlightKind::kSent, 0x01, Psn(1), 0xFFFF, 4);
  const auto entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].psn, Psn(0xFFFFFE));
  EXPECT_EQ(entries[0].count, 2u);
  EXPECT_EQ(entries[0].detail, 0xFFFF) << "the largest detail";
  EXPECT_EQ(entries[0].time_ns, 2u);
  EXPECT_EQ(entries[1].code, 0x01);
  EXPECT_EQ(entries[1].psn, Psn(0));
  EXPECT_EQ(entries[1].count, 2u);
  EXPECT_EQ(entries[1].time_ns, 4u);
}

TEST(FlightRecorderTest, ANoteEndsARun) {
  FlightRecorder recorder;
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(5), 64, 1);
  recorder.Note(FlightKind::kTimer, 0, 0, 2);
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(6), 64, 3);
  const auto entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].count, 1u);
  EXPECT_EQ(entries[1].kind, FlightKind::kTimer);
  EXPECT_EQ(entries[2].psn, Psn(6));
  EXPECT_EQ(recorder.Entries().size(), 3u) << "to look changes nothing";
}

TEST(FlightRecorderTest, KeepsTheLastEntriesInOrder) {
  FlightRecorder recorder;
  for (uint32_t i = 0; i < FlightRecorder::kEntries; ++i) {
    recorder.Note(FlightKind::kTimer, static_cast<uint8_t>(i), 0, i);
  }
  ASSERT_EQ(recorder.Entries().size(), FlightRecorder::kEntries);
  EXPECT_EQ(recorder.Entries().front().code, 0);
  recorder.Note(FlightKind::kTimer, 200, 0, 200);
  const auto entries = recorder.Entries();
  ASSERT_EQ(entries.size(), FlightRecorder::kEntries);
  EXPECT_EQ(entries.front().code, 1) << "the oldest went";
  EXPECT_EQ(entries.back().code, 200);
}

TEST(FlightRecorderTest, AFloodOfDropsIsOneEntry) {
  FlightRecorder recorder;
  recorder.Packet(FlightKind::kSent, kSendOnly, Psn(5), 64, 1);
  for (uint32_t i = 0; i < 1000; ++i) {
    recorder.Dropped(kSendOnly, Psn(i * 77), Drop::kBadIcrc, 10 + i);
  }
  recorder.Dropped(kAck, Psn(3), Drop::kBadAddress, 2000);
  const auto entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[1].kind, FlightKind::kDropped);
  EXPECT_EQ(entries[1].count, 1000u);
  EXPECT_EQ(entries[1].detail, static_cast<uint16_t>(Drop::kBadIcrc));
  EXPECT_EQ(entries[1].psn, Psn(999 * 77));
  EXPECT_EQ(entries[2].detail, static_cast<uint16_t>(Drop::kBadAddress));
  EXPECT_EQ(entries[2].psn, Psn(3));
}

}  // namespace
}  // namespace pollux::transport
