#include "stack/base/mac_text.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(MacText, Parses) {
  const absl::StatusOr<MacAddress> mac = ParseMac("02:00:5e:FF:00:1a");
  ASSERT_TRUE(mac.ok()) << mac.status();
  EXPECT_EQ(*mac, (MacAddress{0x02, 0x00, 0x5E, 0xFF, 0x00, 0x1A}));
}

TEST(MacText, RefusesInvalidMacAddresses) {
  for (const char* text : {"", "02", "02:00:00:00:00", "02:00:00:00:00:00:01", "2:0:0:0:0:1",
                           "02:00:00:00:00:0g", "02:00:00:00:00:+1", "01:00:5e:00:00:01"}) {
    EXPECT_FALSE(ParseMac(text).ok()) << text;
  }
}

}  // namespace
}  // namespace pollux
