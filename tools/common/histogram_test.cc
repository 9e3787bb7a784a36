#include "tools/common/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

namespace pollux::tools {
namespace {

TEST(HistogramTest, PercentilesOfNoneAndOneValueAreExact) {
  auto histogram = std::make_unique<Histogram>();
  EXPECT_EQ(histogram->Percentile(0.5), 0u);
  histogram->Record(12345);
  for (double fraction : {0.001, 0.5, 1.0}) EXPECT_EQ(histogram->Percentile(fraction), 12345u);
}

TEST(HistogramTest, PercentilesStayWithinTheStatedError) {
  auto histogram = std::make_unique<Histogram>();
  std::mt19937_64 random(1);
  std::vector<uint64_t> values;
  for (int i = 0; i < 100000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    values.push_back(value);
    histogram->Record(value);
  }
  std::sort(values.begin(), values.end());
  for (double fraction : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const uint64_t exact =
        values[static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size()))) - 1];
    const uint64_t found = histogram->Percentile(fraction);
    EXPECT_GE(found, exact) << fraction;
    EXPECT_LE(found - exact, exact / 64 + 1) << fraction;
  }
  EXPECT_EQ(histogram->max(), values.back());
}

TEST(HistogramTest, BucketsAreOrderedAndHoldEveryValue) {
  auto histogram = std::make_unique<Histogram>();
  auto more = std::make_unique<Histogram>();
  for (uint64_t value : {5, 5, 70'000}) histogram->Record(value);
  for (uint64_t value : {3, 900'000}) more->Record(value);
  histogram->Add(*more);
  EXPECT_EQ(histogram->count(), 5u);
  EXPECT_EQ(histogram->max(), 900'000u);
  std::vector<uint64_t> bounds, counts;
  histogram->ForEach([&](uint64_t bound, uint64_t count) {
    bounds.push_back(bound);
    counts.push_back(count);
  });
  ASSERT_EQ(counts, (std::vector<uint64_t>{1, 2, 1, 1}));
  EXPECT_EQ(bounds[0], 3u);
  EXPECT_EQ(bounds[1], 5u);
  EXPECT_GE(bounds[2], 70'000u);
  EXPECT_LE(bounds[2], 70'000u + 70'000u / 64);
  EXPECT_EQ(bounds[3], 900'000u);
}

}  // namespace
}  // namespace pollux::tools
