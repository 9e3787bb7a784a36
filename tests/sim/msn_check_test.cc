#include "tests/sim/msn_check.h"

#include <gtest/gtest.h>

#include <array>

namespace pollux::sim {
namespace {

// Through both wraps: three messages of 2, 1 and 3 packets.
class MsnCheckTest : public ::testing::Test {
 protected:
  bool Right(wire::Opcode opcode, uint32_t psn_offset, uint8_t syndrome, uint32_t messages) {
    std::array<uint8_t, wire::kAethBytes> aeth;
    wire::EmitAeth({.syndrome = syndrome, .msn = (kFirstMsn + messages) & 0xFFFFFF}, aeth.data());
    wire::RocePacket packet;
    packet.frame = aeth.data();
    packet.ext_offset = 0;
    packet.info = wire::FindOpcode(static_cast<uint8_t>(opcode));
    packet.bth.psn = kFirstPsn + psn_offset;
    return check_.Check(packet).empty();
  }
  static constexpr uint32_t kFirstMsn = 0xFFFFFE;
  const Psn kFirstPsn{0xFFFFFF};
  const MsnCheck check_{kFirstPsn, kFirstMsn, {2, 1, 3}};
};

TEST_F(MsnCheckTest, AnAcknowledgementCountsAllAcknowledgedMessages) {
  constexpr wire::Opcode kAck = wire::Opcode::kRcAcknowledge;
  EXPECT_TRUE(Right(kAck, 0, wire::kAckNoCredits, 0));
  EXPECT_TRUE(Right(kAck, 1, wire::kAckNoCredits, 1));
  EXPECT_TRUE(Right(kAck, 2, wire::kAckNoCredits, 2));
  EXPECT_TRUE(Right(kAck, 5, wire::kAckNoCredits, 3));
  EXPECT_FALSE(Right(kAck, 2, wire::kAckNoCredits, 1));
  EXPECT_FALSE(Right(kAck, 2, wire::kAckNoCredits, 3));
}

TEST_F(MsnCheckTest, ANakDoesNotCountItsOwnMessage) {
  EXPECT_TRUE(Right(wire::Opcode::kRcAcknowledge, 2, wire::kNakPsnSequence, 1));
  EXPECT_FALSE(Right(wire::Opcode::kRcAcknowledge, 2, wire::kNakPsnSequence, 2));
}

TEST_F(MsnCheckTest, ALateResponseMayHaveAHigherMsn) {
  constexpr wire::Opcode kData = wire::Opcode::kRcReadResponseOnly;
  EXPECT_TRUE(Right(kData, 2, wire::kAckNoCredits, 2));
  EXPECT_TRUE(Right(kData, 2, wire::kAckNoCredits, 3));
  EXPECT_FALSE(Right(kData, 2, wire::kAckNoCredits, 1));
  EXPECT_FALSE(Right(kData, 2, wire::kAckNoCredits, 4));
}

}  // namespace
}  // namespace pollux::sim
