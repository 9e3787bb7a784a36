#include "rpcrdma/buffer_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kBuffers = 64;

size_t TakeAll(BufferShare* share, std::vector<uint8_t*>* taken) {
  const size_t before = taken->size();
  while (share->Allows(1)) taken->push_back(share->Take());
  return taken->size() - before;
}

TEST(BufferShareTest, OneThatIsAloneHasHalf) {
  BufferPool pool(kBuffers, 16);
  BufferShare share(&pool);
  std::vector<uint8_t*> taken;
  EXPECT_EQ(TakeAll(&share, &taken), kBuffers / 2);
  share.Give(taken.back());
  EXPECT_TRUE(share.Allows(1));
  EXPECT_FALSE(share.Allows(2));
}

TEST(BufferShareTest, ThoseThatTakeAllTheyGetLeaveSome) {
  BufferPool pool(kBuffers, 16);
  std::vector<BufferShare> greedy(4, BufferShare(&pool));
  std::vector<uint8_t*> taken;
  for (BufferShare& share : greedy) EXPECT_GT(TakeAll(&share, &taken), 0u);
  BufferShare modest(&pool);
  EXPECT_TRUE(modest.Allows(1));
}

// A call can need two, and there may be no more.
TEST(BufferShareTest, WhoHoldsNoneMayTakeTheLast) {
  BufferPool pool(2, 16);
  BufferShare share(&pool), other(&pool);
  EXPECT_TRUE(share.Allows(2));
  EXPECT_FALSE(share.Allows(3));
  uint8_t* const first = share.Take();
  EXPECT_FALSE(share.Allows(1));
  EXPECT_TRUE(other.Allows(1));
  share.Give(first);
  EXPECT_TRUE(share.Allows(2));
}

}  // namespace
}  // namespace pollux::rpcrdma
