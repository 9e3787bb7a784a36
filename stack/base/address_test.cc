#include "stack/base/address.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(AddressTest, FormattedAddressesParse) {
  for (const char* text : {"192.0.2.1/24", "1::/0", "2001:db8::1/64", "fe80::1/128",
                           "10.1.2.3/32,vlan=1", "2001:db8::1/64,vlan=4094", "1.2.3.4/0"}) {
    const auto address = ParseInterfaceAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(FormatInterfaceAddress(*address), text);
  }
  EXPECT_EQ(ParseInterfaceAddress("192.0.2.1/24,vlan=7").value(),
            (InterfaceAddress{Gid::FromIpv4(0xC0000201), 24, 7}));
  EXPECT_EQ(ParseAddress("::ffff:192.0.2.1").value(), Gid::FromIpv4(0xC0000201));
}

TEST(AddressTest, InvalidInterfaceAddressesAreRefused) {
  for (const char* text :
       {"", "192.0.2.1", "192.0.2.1/33", "2001:db8::1/129", "192.0.2.1/24,vlan=0", "1.2.3/8",
        "192.0.2.1/24,vlan=4095", "192.0.2.1/24,vlan", "192.0.2.1/24,100", "ff02::1/64", "::/0",
        "::1/128", "224.0.0.1/4", "0.1.2.3/8", "255.255.255.255/32", "127.0.0.1/8", "10.0.0.0/24",
        "10.0.0.255/24", "2001:db8::1/-1"}) {
    EXPECT_EQ(ParseInterfaceAddress(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(AddressTest, FormatsAddressesAndMacs) {
  EXPECT_EQ(FormatAddress(Gid::FromIpv4(0x0A141E28)), "10.20.30.40");
  EXPECT_EQ(FormatAddress(ParseAddress("fe80:0::1").value()), "fe80::1");
  EXPECT_EQ(FormatMac({2, 0, 0xAB, 0, 0, 0x10}), "02:00:ab:00:00:10");
}

TEST(AddressTest, PrefixesMatchOnlyWithinOneIpVersion) {
  const Gid a = ParseAddress("10.1.2.3").value();
  EXPECT_EQ(CommonPrefixLength(a, ParseAddress("10.1.2.2").value()), 31);
  EXPECT_EQ(CommonPrefixLength(a, a), 32);
  EXPECT_TRUE(InPrefix(a, ParseAddress("10.1.0.0").value(), 16));
  EXPECT_FALSE(InPrefix(a, ParseAddress("10.1.0.0").value(), 23));
  EXPECT_TRUE(InPrefix(a, ParseAddress("99.0.0.0").value(), 0));
  // The versions have no prefix in common, not even the empty one.
  EXPECT_FALSE(InPrefix(a, ParseAddress("::1").value(), 0));
  EXPECT_EQ(CommonPrefixLength(ParseAddress("fe80::").value(), ParseAddress("fec0::").value()), 9);
}

}  // namespace
}  // namespace pollux
