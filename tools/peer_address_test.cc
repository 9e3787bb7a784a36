#include "tools/peer_address.h"

#include <gtest/gtest.h>

#include "stack/net/address.h"

namespace pollux::tools {
namespace {

TEST(PeerAddress, Hosts) {
  for (const char* text : {"192.0.2.1", "2001:db8::1", "fe80::1"}) {
    const absl::StatusOr<Gid> address = ParsePeerAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(*address, *net::ParseAddress(text));
  }
}

TEST(PeerAddress, ScopeOfLinkLocal) {
  const absl::StatusOr<Gid> address = ParsePeerAddress("fe80::1%eth0");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, *net::ParseAddress("fe80::1"));
  EXPECT_FALSE(ParsePeerAddress("2001:db8::1%eth0").ok());
  EXPECT_FALSE(ParsePeerAddress("192.0.2.1%eth0").ok());
}

TEST(PeerAddress, Refused) {
  for (const char* text : {"", "%", "nobody", "0.0.0.0", "127.0.0.1", "224.1.1.1",
                           "255.255.255.255", "::", "::1", "ff02::1", "ff02::1%eth0"}) {
    EXPECT_EQ(ParsePeerAddress(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace pollux::tools
