#include "rpcrdma/responder/pull_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kBufferBytes = 1 << 20;

ReadSegment Read(uint32_t position, uint32_t length) {
  return {.position = position, .target = {.handle = 1, .length = length, .offset = 0}};
}

TEST(PullPlan, WithoutReadSegmentsThePlanIsEmpty) {
  PullPlan plan;
  ASSERT_TRUE(MakePullPlan({}, Proc::kMsg, kBufferBytes, &plan));
  EXPECT_EQ(plan.item_count, 0u);
  EXPECT_EQ(plan.Bytes(), 0u);
}

// RFC 8166 section 3.4.5
TEST(PullPlan, SegmentsOfOnePositionAreOneItem) {
  PullPlan plan;
  const std::vector<ReadSegment> reads = {Read(80, 5), Read(200, 8), Read(80, 2), Read(200, 1)};
  ASSERT_TRUE(MakePullPlan(reads, Proc::kMsg, kBufferBytes, &plan));
  ASSERT_EQ(plan.item_count, 2u);
  EXPECT_EQ(plan.items[0].position, 80u);
  EXPECT_EQ(plan.items[0].bytes, 7u);
  EXPECT_EQ(plan.items[0].at, 0u);
  EXPECT_EQ(plan.items[1].position, 200u);
  EXPECT_EQ(plan.items[1].bytes, 9u);
  EXPECT_EQ(plan.items[1].at, 8u);
  EXPECT_EQ(plan.Bytes(), 16u);
}

TEST(PullPlan, ItemsAreOrderedByPosition) {
  PullPlan plan;
  const std::vector<ReadSegment> reads = {Read(300, 3), Read(100, 1), Read(200, 2), Read(100, 1)};
  ASSERT_TRUE(MakePullPlan(reads, Proc::kMsg, kBufferBytes, &plan));
  ASSERT_EQ(plan.item_count, 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.items[i].position, 100 * (i + 1));
    EXPECT_EQ(plan.items[i].bytes, i == 0 ? 2u : i + 1);
    EXPECT_EQ(plan.items[i].at, 4 * i);
  }
}

// RFC 8166 section 3.5.3
TEST(PullPlan, ALongCallPrecedesItsItems) {
  PullPlan plan;
  const std::vector<ReadSegment> reads = {Read(0, 50), Read(64, 6), Read(0, 13)};
  ASSERT_TRUE(MakePullPlan(reads, Proc::kNomsg, kBufferBytes, &plan));
  EXPECT_EQ(plan.payload_bytes, 63u);
  ASSERT_EQ(plan.item_count, 1u);
  EXPECT_EQ(plan.items[0].at, 64u);
  EXPECT_FALSE(MakePullPlan(reads, Proc::kMsg, kBufferBytes, &plan));
  EXPECT_FALSE(MakePullPlan({}, Proc::kNomsg, kBufferBytes, &plan));
}

// RFC 8166 section 4.2.4
TEST(PullPlan, ALongCallNeedsAPayloadStream) {
  PullPlan plan;
  for (const std::vector<ReadSegment>& reads :
       {std::vector<ReadSegment>{Read(0, 0)}, {Read(0, 0), Read(64, 6), Read(0, 0)}}) {
    EXPECT_FALSE(MakePullPlan(reads, Proc::kNomsg, kBufferBytes, &plan));
  }
  EXPECT_TRUE(MakePullPlan(std::vector<ReadSegment>{Read(0, 0), Read(0, 4)}, Proc::kNomsg,
                           kBufferBytes, &plan));
}

TEST(PullPlan, PlansBeyondTheLimitsAreRefused) {
  PullPlan plan;
  std::vector<ReadSegment> reads;
  for (uint32_t i = 1; i <= oncrpc::kMaxItems; ++i) reads.push_back(Read(4 * i, 1));
  EXPECT_TRUE(MakePullPlan(reads, Proc::kMsg, 4 * oncrpc::kMaxItems, &plan));
  EXPECT_FALSE(MakePullPlan(reads, Proc::kMsg, 4 * oncrpc::kMaxItems - 1, &plan));
  reads.push_back(Read(4, 1));
  EXPECT_TRUE(MakePullPlan(reads, Proc::kMsg, kBufferBytes, &plan));
  reads.push_back(Read(2, 1));
  EXPECT_FALSE(MakePullPlan(reads, Proc::kMsg, kBufferBytes, &plan));
}

TEST(PullPlan, LengthsThatOverflowAreRefused) {
  PullPlan plan;
  const std::vector<ReadSegment> wrap(64, Read(4, 0xFFFFFFFF));
  EXPECT_FALSE(MakePullPlan(wrap, Proc::kMsg, 0xFFFFFFFF, &plan));
  const std::vector<ReadSegment> two = {Read(4, 0xFFFFFFFF), Read(8, 0xFFFFFFFF)};
  EXPECT_FALSE(MakePullPlan(two, Proc::kMsg, 0xFFFFFFFF, &plan));
}

}  // namespace
}  // namespace pollux::rpcrdma
