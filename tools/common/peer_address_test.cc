#include "tools/common/peer_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stack/base/address.h"

namespace pollux::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Longer than a label may be (RFC 1035 section 2.3.4): no resolver asks anybody for it.
const std::string kNobody(64, 'x');

TEST(ResolveHost, AddressesResolveToThemselves) {
  for (const char* text : {"192.0.2.1", "2001:db8::1", "127.0.0.1", "::"}) {
    const auto addresses = ResolveHost(text);
    ASSERT_TRUE(addresses.ok()) << addresses.status();
    EXPECT_THAT(*addresses, ElementsAre(*pollux::ParseAddress(text)));
  }
}

// Of a typing error in an address no name server is asked.
TEST(ResolveHost, InvalidAddressesAreNotResolved) {
  for (const char* text : {"", ".", "192.0.2", "192.0.2.256", "192.0.2.1.", "2001:db8::x", "1"}) {
    EXPECT_EQ(ResolveHost(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ResolveHost, AnUnknownNameIsNotFound) {
  const absl::Status status = ResolveHost(kNobody).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(kNobody));
}

TEST(ResolvePeer, UnicastAddressesAreAccepted) {
  for (const char* text : {"192.0.2.1", "2001:db8::1", "fe80::1"}) {
    const auto addresses = ResolvePeer(text);
    ASSERT_TRUE(addresses.ok()) << addresses.status();
    EXPECT_THAT(*addresses, ElementsAre(*pollux::ParseAddress(text)));
  }
}

TEST(ResolvePeer, OnlyLinkLocalAddressesMayHaveAScope) {
  const auto addresses = ResolvePeer("fe80::1%eth0");
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_THAT(*addresses, ElementsAre(*pollux::ParseAddress("fe80::1")));
  EXPECT_FALSE(ResolvePeer("2001:db8::1%eth0").ok());
  EXPECT_FALSE(ResolvePeer("192.0.2.1%eth0").ok());
}

TEST(ResolvePeer, AddressesThatNoPeerCanHaveAreRefused) {
  for (const char* text : {"", "%", "0.0.0.0", "127.0.0.1", "224.1.1.1", "255.255.255.255",
                           "::", "::1", "ff02::1", "ff02::1%eth0"}) {
    EXPECT_EQ(ResolvePeer(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ResolvePeer(kNobody).status().code(), absl::StatusCode::kNotFound);
}

// By every resolver this host itself.
TEST(ResolvePeer, ANameOfTheLocalHostIsRefused) {
  const absl::Status status = ResolvePeer("localhost").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not the address of one host"));
}

}  // namespace
}  // namespace pollux::tools
