#include "tools/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

namespace pollux::tools {
namespace {

TEST(HistogramTest, EmptyAndOne) {
  auto histogram = std::make_unique<Histogram>();
  EXPECT_EQ(histogram->Percentile(0.5), 0u);
  histogram->Record(12345);
  for (double fraction : {0.001, 0.5, 1.0}) EXPECT_EQ(histogram->Percentile(fraction), 12345u);
}

TEST(HistogramTest, WithinTheStatedError) {
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

}  // namespace
}  // namespace pollux::tools
