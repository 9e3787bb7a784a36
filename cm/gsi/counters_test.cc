#include "cm/gsi/counters.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pollux::cm {
namespace {

TEST(CountersTest, NamesAreThoseOfLinux) {
  Counters counters;
  counters.of(Attribute::kReq) = {.sent = 1, .received = 2, .retries = 3, .duplicates = 4};
  counters.of(Attribute::kApr).received = 5;
  counters.Count(MadDrop::kBadLength);
  std::map<std::string, uint64_t> seen;
  counters.Visit([&](std::string_view name, uint64_t value) { seen[std::string(name)] = value; });
  EXPECT_EQ(seen.size(), 4 * 11 + static_cast<size_t>(MadDrop::kCount));
  EXPECT_EQ(seen["cm_tx_msgs/req"], 1u);
  EXPECT_EQ(seen["cm_rx_msgs/req"], 2u);
  EXPECT_EQ(seen["cm_tx_retries/req"], 3u);
  EXPECT_EQ(seen["cm_rx_duplicates/req"], 4u);
  EXPECT_EQ(seen["cm_rx_msgs/apr"], 5u);
  EXPECT_EQ(seen["cm_rx_msgs/sidr_req"], 0u);
  EXPECT_EQ(seen["cm_rx_drops/bad_length"], 1u);
}

}  // namespace
}  // namespace pollux::cm
