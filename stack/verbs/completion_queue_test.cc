#include "stack/verbs/completion_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace pollux::verbs {
namespace {

ibv_wc Completion(uint64_t wr_id) {
  ibv_wc wc{};
  wc.wr_id = wr_id;
  return wc;
}

TEST(CompletionQueueTest, OldestCompletionIsFirstAcrossTheWrap) {
  CompletionQueue cq(3);
  uint64_t in = 0, out = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(cq.Push(Completion(in++)));
    ibv_wc wc[4];
    ASSERT_EQ(cq.Poll(4, wc), 2);
    EXPECT_EQ(wc[0].wr_id, out++);
    EXPECT_EQ(wc[1].wr_id, out++);
  }
  EXPECT_FALSE(cq.overrun());
}

TEST(CompletionQueueTest, ACompletionBeyondTheCapacityIsAnOverrun) {
  CompletionQueue cq(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cq.Push(Completion(i)));
  EXPECT_FALSE(cq.overrun());
  EXPECT_FALSE(cq.Push(Completion(3)));
  EXPECT_TRUE(cq.overrun());
  ibv_wc wc[4];
  EXPECT_EQ(cq.Poll(4, wc), 3);
  EXPECT_EQ(wc[2].wr_id, 2u);
  EXPECT_FALSE(cq.Push(Completion(4))) << "what is polled would have a gap";
  EXPECT_EQ(cq.Poll(4, wc), 0);
}

TEST(CompletionQueueTest, FindsCompletionsByQueuePair) {
  CompletionQueue cq(3);
  for (const uint32_t qp_num : {5u, 6u, 7u, 8u}) {
    EXPECT_FALSE(cq.HasCompletionOf(qp_num));
    ibv_wc wc{};
    wc.qp_num = qp_num;
    ASSERT_TRUE(cq.Push(wc));
    EXPECT_TRUE(cq.HasCompletionOf(qp_num));
    if (qp_num == 5) continue;
    EXPECT_TRUE(cq.HasCompletionOf(qp_num - 1));
    cq.Pop();
    EXPECT_FALSE(cq.HasCompletionOf(qp_num - 1)) << "it was taken";
  }
}

TEST(CompletionQueueTest, CompletionsAreWrittenAndReadInPlace) {
  CompletionQueue cq(2);
  EXPECT_EQ(cq.front(), nullptr);
  for (uint64_t i = 0; i < 5; ++i) {
    ibv_wc full = Completion(100 + i);
    full.byte_len = full.wc_flags = 7;
    ASSERT_TRUE(cq.Push(full));
    ASSERT_TRUE(cq.Write(false, [i](ibv_wc& wc) {
      EXPECT_EQ(wc.byte_len | wc.wc_flags, 0u) << "of the one that lay there before";
      wc.wr_id = i;
    }));
    EXPECT_EQ(cq.front()->wr_id, 100 + i);
    cq.Pop();
    ASSERT_NE(cq.front(), nullptr);
    EXPECT_EQ(cq.front()->wr_id, i);
    cq.Pop();
    EXPECT_EQ(cq.front(), nullptr);
  }
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cq.Push(Completion(i)));
  EXPECT_FALSE(cq.Write(false, [](ibv_wc&) { ADD_FAILURE() << "there is no place for it"; }));
  EXPECT_TRUE(cq.overrun());
}

// Resident bytes of this process.
size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t mapped = 0, resident = 0;
  statm >> mapped >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// A quarter leaves room for what sanitizers take beside it.
TEST(CompletionQueueTest, ALongQueueUsesMemoryOnlyForWaitingCompletions) {
  constexpr size_t kRingBytes = kMaxCqEntries * sizeof(ibv_wc);
  const size_t before = ResidentBytes();
  CompletionQueue cq(kMaxCqEntries);
  EXPECT_EQ(cq.capacity(), kMaxCqEntries);
  ibv_wc wc[2];
  for (uint64_t i = 0; i < kMaxCqEntries; ++i) {
    ASSERT_TRUE(cq.Push(Completion(i)));
    ASSERT_EQ(cq.Poll(2, wc), 1);
    ASSERT_EQ(wc[0].wr_id, i);
    ASSERT_EQ(cq.Poll(2, wc), 0);
  }
  EXPECT_LT(ResidentBytes(), before + kRingBytes / 4);
  for (uint64_t i = 0; i < kMaxCqEntries; ++i) ASSERT_TRUE(cq.Push(Completion(i)));
  EXPECT_FALSE(cq.Push(Completion(0)));
  for (uint64_t i = 0; i < kMaxCqEntries; ++i) {
    ASSERT_EQ(cq.Poll(1, wc), 1);
    ASSERT_EQ(wc[0].wr_id, i);
  }
}

TEST(CompletionQueueTest, PollOfAnEmptyQueueReturnsZero) {
  CompletionQueue cq(1);
  ibv_wc wc{};
  EXPECT_EQ(cq.Poll(1, &wc), 0);
  EXPECT_EQ(cq.Poll(-1, &wc), 0);
}

TEST(CompletionQueueTest, ResizeKeepsWaitingCompletions) {
  CompletionQueue cq(3);
  for (int i = 0; i < 5; ++i) {  // past the wrap
    ASSERT_TRUE(cq.Push(Completion(i)));
    ibv_wc wc{};
    ASSERT_EQ(cq.Poll(i < 3 ? 1 : 0, &wc), i < 3 ? 1 : 0);
  }
  EXPECT_EQ(cq.Resize(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cq.Resize(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cq.Resize(kMaxCqEntries + 1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(cq.Resize(2).ok());
  EXPECT_FALSE(cq.Push(Completion(9))) << "the new size holds";
  CompletionQueue grown(1);
  ASSERT_TRUE(grown.Push(Completion(1)));
  ASSERT_TRUE(grown.Resize(5).ok());
  for (int i = 2; i <= 5; ++i) ASSERT_TRUE(grown.Push(Completion(i)));
  ibv_wc wc[8];
  ASSERT_EQ(grown.Poll(8, wc), 5);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(wc[i].wr_id, i + 1);
}

}  // namespace
}  // namespace pollux::verbs
