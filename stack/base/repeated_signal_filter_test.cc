#include "stack/base/repeated_signal_filter.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(RepeatedSignalFilter, SignalsInQuickSuccessionAreOneRequest) {
  constexpr int64_t kFirst = 1000;
  RepeatedSignalFilter signal_filter;
  EXPECT_FALSE(signal_filter.IsRepeated(kFirst));
  EXPECT_FALSE(signal_filter.IsRepeated(kFirst));
  EXPECT_FALSE(signal_filter.IsRepeated(kFirst + RepeatedSignalFilter::kAtOnceMs - 1));
  EXPECT_TRUE(signal_filter.IsRepeated(kFirst + RepeatedSignalFilter::kAtOnceMs));
}

}  // namespace
}  // namespace pollux
