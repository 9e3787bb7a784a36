#include "oncrpc/universal_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stack/base/address.h"

namespace pollux::oncrpc {
namespace {

SocketAddress At(const char* address, uint16_t port) {
  return {.address = ParseAddress(address).value(), .port = port};
}

// RFC 5665 section 5.2.3.3, section 5.2.3.4
TEST(UniversalAddressTest, FormatsAndParses) {
  const struct {
    SocketAddress endpoint;
    const char* netid;
    const char* text;
  } cases[] = {{At("192.0.2.1", 20049), "rdma", "192.0.2.1.78.81"},
               {At("0.0.0.0", 1), "rdma", "0.0.0.0.0.1"},
               {At("2001:db8::1", 65535), "rdma6", "2001:db8::1.255.255"}};
  for (const auto& one : cases) {
    EXPECT_STREQ(Netid(one.endpoint.address), one.netid);
    EXPECT_EQ(UniversalAddress(one.endpoint), one.text);
    const auto parsed = ParseUniversalAddress(one.text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, one.endpoint);
  }
}

TEST(UniversalAddressTest, RefusesInvalidAddresses) {
  for (const char* text :
       {"", ".", "..", "1.2", "192.0.2.1", "192.0.2.1.78", "192.0.2.1.256.1", "192.0.2.1.1.256",
        "192.0.2.1.-1.1", "192.0.2.1.78.81.1", "192.0.2.300.78.81", "2001:db8::1", "::1.1",
        "/run/rpcbind.sock", "192.0.2.1..81", "192.0.2.1.78."}) {
    EXPECT_EQ(ParseUniversalAddress(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(UniversalAddressTest, ErrorsContainNoControlCharacters) {
  EXPECT_THAT(std::string(ParseUniversalAddress("\x1b[2J\n1.2").status().message()),
              ::testing::StartsWith("'\\x1b[2J\\n1.2' is not"));
}

}  // namespace
}  // namespace pollux::oncrpc
