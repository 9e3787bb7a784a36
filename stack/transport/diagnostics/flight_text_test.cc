#include "stack/transport/diagnostics/flight_text.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

constexpr auto kSendOnlyOpcode = static_cast<uint8_t>(wire::Opcode::kRcSendOnly);
constexpr auto kAckOpcode = static_cast<uint8_t>(wire::Opcode::kRcAcknowledge);

TEST(FlightTextTest, EntriesAreFormattedAsText) {
  EXPECT_EQ(FlightText({.kind = FlightKind::kSent,
                        .code = kSendOnlyOpcode,
                        .detail = 64,
                        .psn = Psn(5),
                        .count = 16}),
            "-> RC SEND Only PSN 5..20, 16 packets, 64 bytes");
  EXPECT_EQ(FlightText({.kind = FlightKind::kReceived,
                        .code = kAckOpcode,
                        .detail = wire::kNakPsnSequence,
                        .psn = Psn(7),
                        .count = 1}),
            "<- RC Acknowledge PSN 7, NAK PSN sequence error");
  EXPECT_EQ(FlightText({.kind = FlightKind::kSent,
                        .code = static_cast<uint8_t>(wire::Opcode::kRcReadRequest),
                        .psn = Psn(8),
                        .count = 1}),
            "-> RC RDMA READ Request PSN 8");
  EXPECT_EQ(FlightText({.kind = FlightKind::kDropped,
                        .code = kSendOnlyOpcode,
                        .detail = static_cast<uint16_t>(Drop::kBadIcrc),
                        .psn = Psn(9),
                        .count = 1}),
            "<- RC SEND Only PSN 9, dropped: bad_icrc");
  EXPECT_EQ(FlightText({.kind = FlightKind::kDropped,
                        .code = kSendOnlyOpcode,
                        .detail = static_cast<uint16_t>(Drop::kBadIcrc),
                        .psn = Psn(9),
                        .count = 12}),
            "<- 12 packets, dropped: bad_icrc");
  EXPECT_EQ(FlightText({.kind = FlightKind::kQpState, .code = IBV_QPS_ERR, .count = 1}),
            "queue pair: ERR");
  EXPECT_EQ(FlightText({.kind = FlightKind::kTimer,
                        .code = static_cast<uint8_t>(FlightTimer::kAckTimeout),
                        .count = 1}),
            "timer: local ACK timeout");
  EXPECT_EQ(FlightText({.kind = FlightKind::kFailed, .code = IBV_WC_RETRY_EXC_ERR, .count = 1}),
            "work request failed: transport retry counter exceeded");
  EXPECT_NE(FlightText({.kind = FlightKind::kEvent, .code = IBV_EVENT_QP_ACCESS_ERR, .count = 1})
                .find("access"),
            std::string::npos);
}

TEST(FlightTextTest, UnknownCodesAreShownAsNumbers) {
  EXPECT_EQ(FlightText({.kind = FlightKind::kSent, .code = 0xFE, .psn = Psn(1), .count = 1}),
            "-> opcode 0xfe PSN 1, 0 bytes");
  EXPECT_EQ(FlightText({.kind = FlightKind::kQpState, .code = 99, .count = 1}),
            "queue pair: unknown");
  EXPECT_EQ(FlightText({.kind = FlightKind::kTimer, .code = 99, .count = 1}), "timer: unknown");
  EXPECT_EQ(FlightText({}), "unknown");
}

TEST(FlightTextTest, TheLogHasTimesRelativeToTheEnd) {
  const FlightEntry entries[] = {
      {.time_ns = 1'000'000'000, .kind = FlightKind::kQpState, .code = IBV_QPS_RTS, .count = 1},
      {.time_ns = 3'500'000'000, .kind = FlightKind::kQpState, .code = IBV_QPS_ERR, .count = 1}};
  EXPECT_EQ(FlightLog(entries, 3'500'000'000),
            "       -2.500000 s  queue pair: RTS\n       -0.000000 s  queue pair: ERR\n");
}

}  // namespace
}  // namespace pollux::transport
