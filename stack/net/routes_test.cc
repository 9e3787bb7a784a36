#include "stack/net/routes.h"

#include <gtest/gtest.h>

namespace pollux::net {
namespace {

constexpr uint32_t Ip(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}
Gid To(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return Gid::FromIpv4(Ip(a, b, c, d)); }

TEST(Routes, OnLinkGoesDirectlyTheRestToTheGateway) {
  const Routes routes(Ip(10, 1, 2, 3), 24, Ip(10, 1, 2, 254));
  EXPECT_EQ(*routes.NextHop(To(10, 1, 2, 9)), To(10, 1, 2, 9));
  EXPECT_EQ(*routes.NextHop(To(10, 1, 3, 9)), To(10, 1, 2, 254));
  EXPECT_EQ(*routes.NextHop(To(192, 168, 0, 1)), To(10, 1, 2, 254));
}

TEST(Routes, WithoutAGatewayTheRestIsUnreachable) {
  const Routes routes(Ip(10, 1, 2, 3), 24, std::nullopt);
  const absl::Status status = routes.NextHop(To(10, 1, 3, 9)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "no route to 10.1.3.9: it is not on the link of 10.1.2.3/24 and no gateway is set");
}

TEST(Routes, RefusesWhatIsNotOneHost) {
  const Routes routes(Ip(10, 1, 2, 3), 24, Ip(10, 1, 2, 254));
  for (const Gid& gid : {To(0, 0, 0, 0), To(0, 1, 2, 3), To(224, 0, 0, 1), To(240, 0, 0, 1),
                         To(255, 255, 255, 255), To(10, 1, 2, 255), To(10, 1, 2, 3), Gid{}}) {
    EXPECT_EQ(routes.NextHop(gid).status().code(), absl::StatusCode::kInvalidArgument)
        << FormatAddress(gid);
  }
}

TEST(Routes, PrefixesOfEveryLength) {
  EXPECT_TRUE(Routes(Ip(10, 0, 0, 0), 31, std::nullopt).IsNeighbour(Ip(10, 0, 0, 1)));
  EXPECT_FALSE(Routes(Ip(10, 0, 0, 1), 30, std::nullopt).IsNeighbour(Ip(10, 0, 0, 3)));
  EXPECT_FALSE(Routes(Ip(10, 0, 0, 1), 32, std::nullopt).IsNeighbour(Ip(10, 0, 0, 2)));
  EXPECT_TRUE(Routes(Ip(10, 0, 0, 1), 32, Ip(10, 0, 0, 2)).IsNeighbour(Ip(10, 0, 0, 2)));
  EXPECT_TRUE(Routes(Ip(10, 0, 0, 1), 0, std::nullopt).IsNeighbour(Ip(99, 0, 0, 2)));
  EXPECT_FALSE(Routes(Ip(10, 0, 0, 1), 0, std::nullopt).IsNeighbour(Ip(224, 0, 0, 2)));
}

TEST(Routes, FormatsAddresses) {
  EXPECT_EQ(FormatAddress(To(10, 20, 30, 40)), "10.20.30.40");
  Gid v6;
  v6.raw[0] = 0xFE;
  v6.raw[1] = 0x80;
  v6.raw[15] = 1;
  EXPECT_EQ(FormatAddress(v6), "fe80::1");
}

}  // namespace
}  // namespace pollux::net
