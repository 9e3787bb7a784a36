#include "tests/bench/tail.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "stack/engine/eal.h"

namespace pollux::bench {
namespace {

// A thousand calls of 1 us, and what `longer` adds.
Tail ThousandCalls(std::initializer_list<uint64_t> longer) {
  Tail tail;
  tail.seconds = 1;
  for (int i = 0; i < 1'000; ++i) tail.calls_ns->Record(1'000);
  for (const uint64_t ns : longer) tail.calls_ns->Record(ns);
  return tail;
}

TEST(TailTest, WithoutStallsBothPercentilesAreEqual) {
  const Tail tail = ThousandCalls({50'000, 100'000, 200'000});
  for (const double fraction : {0.5, 0.99, 0.999, 1.0}) {
    EXPECT_EQ(PercentileWithoutStalls(tail, fraction), tail.calls_ns->Percentile(fraction))
        << fraction;
  }
  EXPECT_EQ(PercentileWithoutStalls(Tail(), 0.5), 0u);
}

TEST(TailTest, AStallAccountsForOneCallThatTookLonger) {
  Tail tail = ThousandCalls({50'000, 100'000, 200'000});
  tail.stalls_ns->Record(199'000);
  tail.stalls_ns->Record(99'000);
  EXPECT_LT(PercentileWithoutStalls(tail, 1), 51'000u);
  EXPECT_GE(PercentileWithoutStalls(tail, 1), 50'000u);
  EXPECT_EQ(PercentileWithoutStalls(tail, 0.5), tail.calls_ns->Percentile(0.5));
}

TEST(TailTest, AStallDoesNotAccountForAShorterCallThanItself) {
  Tail tail = ThousandCalls({200'000});
  tail.stalls_ns->Record(20'000);
  EXPECT_GE(PercentileWithoutStalls(tail, 1), 200'000u);
}

TEST(TailTest, BothAreMeasured) {
  ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok());
  const absl::StatusOr<Tail> tail = MeasureTail(0.1);
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_GE(tail->seconds, 0.1);
  EXPECT_GT(tail->calls_ns->count(), 0u);
  EXPECT_GT(tail->clock_reads, 0u);
  const nlohmann::ordered_json json = TailJson(*tail);
  EXPECT_GT(json["round_trip_ns"]["max"], 0);
  EXPECT_NE(TailText(*tail).find("stalls a second"), std::string::npos);
}

}  // namespace
}  // namespace pollux::bench
