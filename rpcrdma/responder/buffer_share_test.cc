#include "rpcrdma/responder/buffer_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kBuffers = 64;
constexpr uint64_t kNowNs = 10'000'000'000;

size_t TakeAll(BufferShare* share, std::vector<uint8_t*>* taken) {
  const size_t before = taken->size();
  while (share->Allows(1, kNowNs)) taken->push_back(share->Take());
  return taken->size() - before;
}

TEST(BufferShareTest, ASingleClientMayTakeHalf) {
  BufferPool pool(kBuffers, 16);
  BufferShare share(&pool);
  std::vector<uint8_t*> taken;
  EXPECT_EQ(TakeAll(&share, &taken), kBuffers / 2);
  share.Give(taken.back());
  EXPECT_TRUE(share.Allows(1, kNowNs));
  EXPECT_FALSE(share.Allows(2, kNowNs));
}

TEST(BufferShareTest, GreedyClientsLeaveBuffersForOthers) {
  BufferPool pool(kBuffers, 16);
  std::vector<BufferShare> greedy(4, BufferShare(&pool));
  std::vector<uint8_t*> taken;
  for (BufferShare& share : greedy) EXPECT_GT(TakeAll(&share, &taken), 0u);
  BufferShare modest(&pool);
  EXPECT_TRUE(modest.Allows(1, kNowNs));
}

// A call can need two, and there may be no more.
TEST(BufferShareTest, AClientWithoutBuffersMayTakeTheLast) {
  BufferPool pool(2, 16);
  BufferShare share(&pool), other(&pool);
  EXPECT_TRUE(share.Allows(2, kNowNs));
  EXPECT_FALSE(share.Allows(3, kNowNs));
  uint8_t* const first = share.Take();
  EXPECT_FALSE(share.Allows(1, kNowNs));
  EXPECT_TRUE(other.Allows(1, kNowNs));
  share.Give(first);
  EXPECT_TRUE(share.Allows(2, kNowNs));
}

TEST(BufferShareTest, AClientThatKeptBuffersGetsASmallerShareForATime) {
  BufferPool pool(kBuffers, 16);
  BufferShare known(&pool, kNowNs + 1);
  std::vector<uint8_t*> taken;
  EXPECT_EQ(TakeAll(&known, &taken), BufferShare::kNarrow);
  EXPECT_TRUE(known.Allows(1, kNowNs + 1));
  BufferShare found_out(&pool);
  EXPECT_GT(TakeAll(&found_out, &taken), BufferShare::kNarrow);
  found_out.Narrow(kNowNs + 1);
  EXPECT_FALSE(found_out.Allows(1, kNowNs));
}

// Who asks for more than a narrow share has is not in want.
TEST(BufferShareTest, BuffersAreWantedWhileASmallRequestWaits) {
  BufferPool pool(2, 16);
  BufferShare share(&pool), other(&pool);
  share.Take();
  share.Take();
  EXPECT_FALSE(share.Allows(1, kNowNs));
  EXPECT_FALSE(pool.IsWanted(kNowNs));
  EXPECT_FALSE(other.Allows(1, kNowNs));
  EXPECT_TRUE(pool.IsWanted(kNowNs));
  EXPECT_FALSE(pool.IsWanted(2 * kNowNs));
}

}  // namespace
}  // namespace pollux::rpcrdma
