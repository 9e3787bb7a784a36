#include "stack/transport/rc/received_psn_bitmap.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

constexpr uint32_t kSpan = ReceivedPsnBitmap::kSpan;

TEST(ReceivedPsnBitmapTest, TakeRemovesAnAddedPsnOnce) {
  ReceivedPsnBitmap arrived;
  EXPECT_TRUE(arrived.empty());
  EXPECT_FALSE(arrived.Take(Psn(7)));
  arrived.Add(Psn(7));
  EXPECT_TRUE(arrived.Has(Psn(7)));
  EXPECT_FALSE(arrived.Has(Psn(8)));
  EXPECT_FALSE(arrived.empty());
  EXPECT_FALSE(arrived.Take(Psn(8)));
  EXPECT_TRUE(arrived.Take(Psn(7)));
  EXPECT_FALSE(arrived.Take(Psn(7)));
  EXPECT_TRUE(arrived.empty());
}

TEST(ReceivedPsnBitmapTest, HoldsAWholeSpanAcrossTheWrap) {
  const Psn first(0xFFFFFF - 100);
  ReceivedPsnBitmap arrived;
  for (uint32_t i = 0; i < kSpan; ++i) arrived.Add(first + i);
  for (uint32_t i = 0; i < kSpan; ++i) EXPECT_TRUE(arrived.Take(first + i)) << i;
  EXPECT_TRUE(arrived.empty());
}

TEST(ReceivedPsnBitmapTest, FindsGapsAndTheirEnds) {
  const Psn first(0xFFFFF0);
  ReceivedPsnBitmap arrived;
  EXPECT_EQ(arrived.Until(true, first, 40), 40u);
  EXPECT_EQ(arrived.Until(false, first, 40), 0u);
  for (const uint32_t i : {0, 1, 5, 20}) arrived.Add(first + i);
  EXPECT_EQ(arrived.Until(true, first, 40), 0u);
  EXPECT_EQ(arrived.Until(false, first, 40), 2u);
  EXPECT_EQ(arrived.Until(true, first + 2, 40), 3u);
  EXPECT_EQ(arrived.Until(true, first + 6, 40), 14u);
  EXPECT_EQ(arrived.Until(true, first + 6, 14), 14u);
  EXPECT_EQ(arrived.Until(true, first + 21, 19), 19u);
}

TEST(ReceivedPsnBitmapTest, FindsGapsAcrossWords) {
  for (const uint32_t start : {0u, 1u, 63u, 500u, Psn::kMask - 200}) {
    const Psn first(start);
    ReceivedPsnBitmap arrived;
    for (uint32_t i = 0; i < 130; ++i) arrived.Add(first + i);
    arrived.Add(first + 330);
    EXPECT_EQ(arrived.Until(false, first, kSpan), 130u) << start;
    EXPECT_EQ(arrived.Until(false, first, 129), 129u) << start;
    EXPECT_EQ(arrived.Until(true, first + 130, kSpan - 130), 200u) << start;
    EXPECT_EQ(arrived.Until(true, first + 130, 199), 199u) << start;
    EXPECT_EQ(arrived.Until(true, first + 331, kSpan - 331), kSpan - 331) << start;
  }
}

TEST(ReceivedPsnBitmapTest, ClearRemovesAllPsns) {
  ReceivedPsnBitmap arrived;
  arrived.Add(Psn(3));
  arrived.Clear();
  EXPECT_TRUE(arrived.empty());
  EXPECT_FALSE(arrived.Has(Psn(3)));
}

}  // namespace
}  // namespace pollux::transport
