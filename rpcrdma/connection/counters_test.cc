#include "rpcrdma/connection/counters.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pollux::rpcrdma {
namespace {

std::map<std::string, uint64_t> Visited(const Counters& counters) {
  std::map<std::string, uint64_t> seen;
  counters.Visit([&](std::string_view name, uint64_t value) { seen.emplace(name, value); });
  return seen;
}

TEST(RpcCountersTest, EachCounterHasItsOwnNameAndValue) {
  Counters counters;
  auto* const values = reinterpret_cast<uint64_t*>(&counters);
  constexpr size_t kCount = (sizeof counters - sizeof(CallTimes)) / sizeof(uint64_t);
  for (size_t i = 0; i < kCount; ++i) values[i] = 100 + i;
  auto seen = Visited(counters);
  EXPECT_EQ(seen.size(), kCount + CallTimes::kLimits + 2);
  EXPECT_EQ(seen["calls_received"], counters.calls_received);
  EXPECT_EQ(seen["bytes_written"], counters.bytes_written);
}

TEST(RpcCountersTest, CallTimesAreCountedUpToTheirLimit) {
  Counters counters;
  uint64_t sum = 0;
  for (const uint64_t ns :
       {uint64_t{0}, uint64_t{1}, uint64_t{1024}, uint64_t{1025}, uint64_t{2048},
        CallTimes::Limit(23), CallTimes::Limit(23) + 1, UINT64_MAX >> 1}) {
    counters.call_times.Count(ns);
    sum += ns;
  }
  auto seen = Visited(counters);
  EXPECT_EQ(seen["call_time_ns/1024"], 3u);
  EXPECT_EQ(seen["call_time_ns/2048"], 2u);
  EXPECT_EQ(seen["call_time_ns/4096"], 0u);
  EXPECT_EQ(seen["call_time_ns/8589934592"], 1u);
  EXPECT_EQ(seen["call_time_ns/inf"], 2u);
  EXPECT_EQ(seen["call_time_ns/sum"], sum);
}

}  // namespace
}  // namespace pollux::rpcrdma
