#include "stack/base/types.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(PsnTest, WrapsAt24Bits) {
  EXPECT_EQ(Psn(0xFFFFFF) + 1, Psn(0));
  EXPECT_EQ(Psn(0) - 1, Psn(0xFFFFFF));
  EXPECT_EQ(Psn(0x1000005), Psn(5));
}

TEST(PsnTest, DistanceIsSignedAcrossTheWrap) {
  EXPECT_EQ(Distance(Psn(0xFFFFFE), Psn(3)), 5);
  EXPECT_EQ(Distance(Psn(3), Psn(0xFFFFFE)), -5);
  EXPECT_TRUE(Before(Psn(0xFFFFFE), Psn(3)));
  EXPECT_FALSE(Before(Psn(3), Psn(3)));
}

TEST(PsnTest, DistanceTurnsNegativeAtTheWindow) {
  EXPECT_EQ(Distance(Psn(0), Psn(Psn::kWindow - 1)), 0x7FFFFF);
  EXPECT_EQ(Distance(Psn(0), Psn(Psn::kWindow)), -0x800000);
}

TEST(GidTest, Ipv4AddressesAreMapped) {
  const Gid gid = Gid::FromIpv4(0xC0000201);
  EXPECT_TRUE(gid.IsIpv4());
  EXPECT_EQ(gid.Ipv4(), 0xC0000201u);
  Gid six = gid;
  six.raw[0] = 0x20;
  EXPECT_FALSE(six.IsIpv4());
}

}  // namespace
}  // namespace pollux
