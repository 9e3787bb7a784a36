#include "stack/transport/flight_limit.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

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
  limit.Reset();
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
