#include "stack/transport/rc/flight_limit.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

constexpr uint32_t kMtu = 1024;

TEST(FlightLimit, OfLargeMessagesIsOfBytesToo) {
  FlightLimit limit;
  for (const uint32_t mtu : {256, 512, 1024}) {
    limit.Reset(mtu);
    EXPECT_EQ(limit.packets(true), FlightLimit::kMost) << mtu;
    EXPECT_EQ(limit.ack_every(true), 32u) << mtu;
  }
  constexpr uint32_t kLarge = kWindowBytes / 4096;
  limit.Reset(4096);
  EXPECT_EQ(limit.packets(), FlightLimit::kMost);
  EXPECT_EQ(limit.packets(true), kLarge);
  EXPECT_EQ(limit.ack_every(), 32u);
  EXPECT_EQ(limit.ack_every(true), 8u);
  limit.OnLoss();
  EXPECT_EQ(limit.packets(true), kLarge) << "the other is above it still";
  limit.OnLoss();
  EXPECT_EQ(limit.packets(true), FlightLimit::kMost / 4);
  limit.OnAcknowledged(1'000);
  EXPECT_EQ(limit.packets(true), kLarge);
  EXPECT_FALSE(limit.lowered());
}

TEST(FlightLimit, MessagesAreLargeBeyondAPacketOfPathMtu1024) {
  EXPECT_FALSE(IsLarge(0));
  EXPECT_FALSE(IsLarge(1024));
  EXPECT_TRUE(IsLarge(1025));
}

TEST(FlightLimit, IsWholeWithoutLosses) {
  FlightLimit limit;
  EXPECT_EQ(limit.packets(), FlightLimit::kMost);
  limit.OnAcknowledged(1'000'000);
  EXPECT_EQ(limit.packets(), FlightLimit::kMost);
}

TEST(FlightLimit, HalvesDownToTheLeast) {
  FlightLimit limit;
  limit.OnLoss();
  EXPECT_EQ(limit.packets(), FlightLimit::kMost / 2);
  for (int i = 0; i < 20; ++i) limit.OnLoss();
  EXPECT_EQ(limit.packets(), FlightLimit::kLeast);
  limit.Reset(kMtu);
  EXPECT_EQ(limit.packets(), FlightLimit::kMost);
}

TEST(FlightLimit, GrowsByHalfOfWhatIsAcknowledged) {
  FlightLimit limit;
  limit.OnLoss();
  for (int i = 0; i < 5; ++i) limit.OnAcknowledged(3);
  EXPECT_EQ(limit.packets(), FlightLimit::kMost / 2 + 7);
  limit.OnAcknowledged(1'000);
  EXPECT_EQ(limit.packets(), FlightLimit::kMost);
}

TEST(FlightLimit, AsksFourTimesAFlight) {
  FlightLimit limit;
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
TEST(FlightLimit, SettlesBelowTheDistanceBetweenLosses) {
  for (const uint32_t n : {20u, 100u}) {
    FlightLimit limit;
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
