#include "stack/transport/diagnostics/counters.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pollux::transport {
namespace {

TEST(CountersTest, EachCounterHasItsOwnNameAndValue) {
  Counters counters;
  auto* const values = reinterpret_cast<uint64_t*>(&counters);
  constexpr size_t kCount = sizeof counters / sizeof(uint64_t);
  for (size_t i = 0; i < kCount; ++i) values[i] = 1000 + i;
  std::map<std::string, uint64_t> seen;
  uint64_t next = 1000;
  counters.Visit([&](std::string_view name, uint64_t value) {
    EXPECT_EQ(value, next++) << name << ": in the order of the members";
    EXPECT_TRUE(seen.emplace(name, value).second) << name << " comes twice";
  });
  EXPECT_EQ(seen.size(), kCount);
  EXPECT_EQ(seen["retry_exceeded_err"], counters.retry_exceeded_err);
  EXPECT_EQ(seen["drops/bad_icrc"], counters.drop(Drop::kBadIcrc));
  EXPECT_EQ(seen.count("drops/invalid"), 0u);
}

}  // namespace
}  // namespace pollux::transport
