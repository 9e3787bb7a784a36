#include "nfs/lock/held_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;

HeldRange Shared(uint64_t begin, uint64_t last) { return {{begin, last}, false}; }
HeldRange Exclusive(uint64_t begin, uint64_t last) { return {{begin, last}, true}; }

TEST(ByteRangeTest, ConvertsNlmOffsetAndLength) {
  EXPECT_EQ(ByteRange::From(5, 0), (ByteRange{5, ByteRange::kEnd}));
  EXPECT_EQ(ByteRange::From(5, 1), (ByteRange{5, 5}));
  EXPECT_EQ(ByteRange::From(0, uint64_t{1} << 63), (ByteRange{0, ByteRange::kEnd}));
  EXPECT_FALSE(ByteRange::From(1, uint64_t{1} << 63).has_value());
  EXPECT_FALSE(ByteRange::From(0, UINT64_MAX).has_value());
  EXPECT_FALSE(ByteRange::From(uint64_t{1} << 63, 0).has_value());
  EXPECT_EQ(ByteRange::From(5, 7)->length(), 7u);
  EXPECT_EQ(ByteRange::From(5, 0)->length(), 0u);
}

TEST(HeldRangesTest, SplitsJoinsAndReplaces) {
  HeldRanges held;
  held.Hold({0, 99}, false);
  held.Hold({40, 59}, true);
  EXPECT_THAT(held.all(), ElementsAre(Shared(0, 39), Exclusive(40, 59), Shared(60, 99)));
  held.Release({50, 69});
  EXPECT_THAT(held.all(), ElementsAre(Shared(0, 39), Exclusive(40, 49), Shared(70, 99)));
  held.Hold({40, 69}, false);
  EXPECT_THAT(held.all(), ElementsAre(Shared(0, 99)));
  held.Hold({100, ByteRange::kEnd}, false);
  EXPECT_THAT(held.all(), ElementsAre(Shared(0, ByteRange::kEnd)));
  held.Release({0, ByteRange::kEnd});
  EXPECT_TRUE(held.all().empty());
}

TEST(HeldRangesTest, WithinClipsRangesAtItsEdges) {
  HeldRanges held;
  held.Hold({10, 19}, false);
  held.Hold({20, 29}, true);
  held.Hold({40, ByteRange::kEnd}, false);
  EXPECT_THAT(held.Within({15, 45}).all(),
              ElementsAre(Shared(15, 19), Exclusive(20, 29), Shared(40, 45)));
  EXPECT_THAT(held.Within({0, ByteRange::kEnd}).all(), held.all());
  EXPECT_TRUE(held.Within({30, 39}).all().empty());
}

TEST(HeldRangesTest, OnlyExclusiveRangesConflictWithShared) {
  HeldRanges held;
  held.Hold({10, 19}, false);
  held.Hold({30, 39}, true);
  EXPECT_EQ(held.Conflict({0, 29}, false), nullptr);
  EXPECT_EQ(*held.Conflict({19, 19}, true), Shared(10, 19));
  EXPECT_EQ(*held.Conflict({0, 30}, false), Exclusive(30, 39));
  EXPECT_EQ(held.Conflict({40, ByteRange::kEnd}, true), nullptr);
}

// Against a byte by byte account.
TEST(HeldRangesTest, RandomOperationsMatchAByteMap) {
  constexpr int kBytes = 24;
  std::minstd_rand random(1);
  HeldRanges held;
  std::array<int, kBytes> bytes{};  // 0 free, 1 shared, 2 exclusive
  for (int round = 0; round < 5000; ++round) {
    const uint64_t begin = random() % kBytes;
    const uint64_t last = begin + random() % (kBytes - begin);
    const int kind = static_cast<int>(random() % 3);
    if (kind == 0) {
      held.Release({begin, last});
    } else {
      held.Hold({begin, last}, kind == 2);
    }
    for (uint64_t at = begin; at <= last; ++at) bytes[at] = kind;
    for (uint64_t at = 0; at < kBytes; ++at) {
      EXPECT_EQ(held.Conflict({at, at}, true) != nullptr, bytes[at] != 0);
      EXPECT_EQ(held.Conflict({at, at}, false) != nullptr, bytes[at] == 2);
    }
    for (size_t i = 1; i < held.all().size(); ++i) {
      ASSERT_GT(held.all()[i].range.begin, held.all()[i - 1].range.last);
    }
  }
}

}  // namespace
}  // namespace pollux::nfs
