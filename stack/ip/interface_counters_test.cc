#include "stack/ip/interface_counters.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pollux::ip {
namespace {

TEST(InterfaceCountersTest, EachCounterHasItsOwnNameAndValue) {
  InterfaceCounters counters;
  auto* const values = reinterpret_cast<uint64_t*>(&counters);
  constexpr size_t kCount = sizeof counters / sizeof(uint64_t);
  for (size_t i = 0; i < kCount; ++i) values[i] = 100 + i;
  std::map<std::string, uint64_t> seen;
  counters.Visit([&](std::string_view name, uint64_t value) { seen.emplace(name, value); });
  EXPECT_EQ(seen.size(), kCount);
  EXPECT_EQ(seen["arp_requests_sent"], counters.arp_requests_sent);
  EXPECT_EQ(seen["left_to_kernel"], counters.left_to_kernel);
}

}  // namespace
}  // namespace pollux::ip
