#include "stack/transport/rc/in_flight_window.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

constexpr uint32_t kMtu = 1024;

TEST(InFlightWindow, BytesOfLargeMessagesAreLimited) {
  InFlightWindow limit;
  for (const uint32_t mtu : {256, 512, 1024}) {
    limit.Reset(mtu);
    EXPECT_EQ(limit.packets(true), InFlightWindow::kMax) << mtu;
    EXPECT_EQ(limit.ack_every(true), 32u) << mtu;
  }
  constexpr uint32_t kLarge = kWindowBytes / 4096;
  limit.Reset(4096);
  EXPECT_EQ(limit.packets(), InFlightWindow::kMax);
  EXPECT_EQ(limit.packets(true), kLarge);
  EXPECT_EQ(limit.ack_every(), 32u);
  EXPECT_EQ(limit.ack_every(true), 8u);
  limit.OnLoss();
  EXPECT_EQ(limit.packets(true), kLarge) << "the other is above it still";
  limit.OnLoss();
  EXPECT_EQ(limit.packets(true), InFlightWindow::kMax / 4);
  limit.OnAcknowledged(1'000);
  EXPECT_EQ(limit.packets(true), kLarge);
  EXPECT_FALSE(limit.lowered());
}

TEST(InFlightWindow, MessagesAreLargeBeyondAPacketOfPathMtu1024) {
  EXPECT_FALSE(IsLarge(0));
  EXPECT_FALSE(IsLarge(1024));
  EXPECT_TRUE(IsLarge(1025));
}

TEST(InFlightWindow, IsAtItsMaximumWithoutLosses) {
  InFlightWindow limit;
  EXPECT_EQ(limit.packets(), InFlightWindow::kMax);
  limit.OnAcknowledged(1'000'000);
  EXPECT_EQ(limit.packets(), InFlightWindow::kMax);
}

TEST(InFlightWindow, HalvesDownToTheMinimum) {
  InFlightWindow limit;
  limit.OnLoss();
  EXPECT_EQ(limit.packets(), InFlightWindow::kMax / 2);
  for (int i = 0; i < 20; ++i) limit.OnLoss();
  EXPECT_EQ(limit.packets(), InFlightWindow::kMin);
  limit.Reset(kMtu);
  EXPECT_EQ(limit.packets(), InFlightWindow::kMax);
}

TEST(InFlightWindow, GrowsByHalfOfTheAcknowledgedPackets) {
  InFlightWindow limit;
  limit.OnLoss();
  for (int i = 0; i < 5; ++i) limit.OnAcknowledged(3);
  EXPECT_EQ(limit.packets(), InFlightWindow::kMax / 2 + 7);
  limit.OnAcknowledged(1'000);
  EXPECT_EQ(limit.packets(), InFlightWindow::kMax);
}

TEST(InFlightWindow, RequestsFourAcknowledgementsPerWindow) {
  InFlightWindow limit;
  EXPECT_FALSE(limit.lowered());
  EXPECT_EQ(limit.ack_every(), 32u);
  limit.OnLoss();
  EXPECT_TRUE(limit.lowered());
  EXPECT_EQ(limit.ack_every(), 16u);
  limit.OnAcknowledged(40);  // 84 packets
  EXPECT_EQ(limit.ack_every(), 16u);
  for (int i = 0; i < 20; ++i) limit.OnLoss();
  EXPECT_EQ(limit.ack_every(), 2u);
  limit.OnAcknowledged(1'000);
  EXPECT_FALSE(limit.lowered());
  EXPECT_EQ(limit.ack_every(), 32u);
}

// One packet in n is lost, at even distances.
TEST(InFlightWindow, SettlesBelowTheDistanceBetweenLosses) {
  for (const uint32_t n : {20u, 100u}) {
    InFlightWindow limit;
    for (int losses = 0; losses < 50; ++losses) {
      limit.OnAcknowledged(n);
      limit.OnLoss();
    }
    EXPECT_GE(limit.packets(), n / 4) << n;
    EXPECT_LE(limit.packets(), n) << n;
  }
}

}  // namespace
}  // namespace pollux::transport
