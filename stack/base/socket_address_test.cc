#include "stack/base/socket_address.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(SocketAddress, IsFormattedWithItsPort) {
  EXPECT_EQ(ToString(SocketAddress{Gid::FromIpv4(0xC0000201), 20049}), "192.0.2.1:20049");
  Gid gid;
  gid.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_EQ(ToString(SocketAddress{gid, 1}), "[2001:db8::1]:1");
}

}  // namespace
}  // namespace pollux
