#include "stack/base/line_array.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace pollux {
namespace {

struct Element {
  uint32_t value = 7;
  uint8_t more[8];
};

TEST(LineArrayTest, NoCacheLineIsSharedBetweenArrays) {
  std::vector<LineArray<Element>> arrays;
  for (size_t count = 1; count <= 100; ++count) {
    arrays.push_back(MakeLineArray<Element>(count));
    const auto begin = reinterpret_cast<uintptr_t>(arrays.back().get());
    EXPECT_EQ(begin % kCacheLineBytes, 0u);
    const uintptr_t end = (begin + count * sizeof(Element) - 1) / kCacheLineBytes;
    for (size_t other = 1; other < count; ++other) {
      const auto first = reinterpret_cast<uintptr_t>(arrays[other - 1].get());
      const uintptr_t last = (first + other * sizeof(Element) - 1) / kCacheLineBytes;
      EXPECT_TRUE(last < begin / kCacheLineBytes || first / kCacheLineBytes > end);
    }
  }
}

TEST(LineArrayTest, ElementsAreInitialized) {
  // Over memory that was used before, as likely as not.
  std::memset(MakeLineArray<uint8_t>(10 * sizeof(Element)).get(), 0xFF, 10 * sizeof(Element));
  const LineArray<Element> elements = MakeLineArray<Element>(10);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(elements[i].value, 7u);
    EXPECT_EQ(elements[i].more[0], 0u);
  }
}

TEST(LineArrayTest, AnEmptyArrayIsNotNull) { EXPECT_NE(MakeLineArray<uint64_t>(0), nullptr); }

}  // namespace
}  // namespace pollux
