#include "stack/io/link/mbuf_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "stack/io/eal_for_test.h"

namespace pollux::io {
namespace {

constexpr uint32_t kAhead = 4;
constexpr unsigned kMbufs = 127, kCached = 16;

class MbufCacheTest : public ::testing::Test {
 protected:
  MbufCacheTest() {
    InitEalForTest();
    pool_ = rte_pktmbuf_pool_create("mbuf_cache", kMbufs, kCached, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                    SOCKET_ID_ANY);
    if (pool_ == nullptr) std::abort();
  }
  ~MbufCacheTest() override {
    EXPECT_EQ(rte_mempool_avail_count(pool_), kMbufs);
    rte_mempool_free(pool_);
  }
  rte_mempool_cache& cache() { return *rte_mempool_default_cache(pool_, rte_lcore_id()); }

  rte_mempool* pool_;
};

TEST_F(MbufCacheTest, FreedMbufsAreCachedAndTakenLastFirst) {
  std::array<rte_mbuf*, 3 + kAhead> mbufs;
  for (rte_mbuf*& mbuf : mbufs) mbuf = rte_pktmbuf_alloc(pool_);
  FreeMbufs(mbufs.data(), mbufs.size());
  const void* upcoming = nullptr;
  rte_mbuf* taken[3];
  taken[0] = TakeCachedMbuf(pool_, kAhead, &upcoming);
  EXPECT_EQ(taken[0], mbufs.back());
  EXPECT_EQ(upcoming, mbufs[mbufs.size() - 1 - kAhead]);
  for (const size_t i : {1u, 2u}) {
    taken[i] = TakeCachedMbuf(pool_, kAhead, &upcoming);
    EXPECT_EQ(taken[i], mbufs[mbufs.size() - 1 - i]);
  }
  FreeMbufs(taken, 3);
}

TEST_F(MbufCacheTest, TheGivenNumberOfMbufsStaysInTheCache) {
  rte_pktmbuf_free(rte_pktmbuf_alloc(pool_));  // fills the cache
  const void* upcoming = nullptr;
  EXPECT_EQ(TakeCachedMbuf(pool_, cache().len, &upcoming), nullptr);
  rte_mbuf* last = TakeCachedMbuf(pool_, cache().len - 1, &upcoming);
  ASSERT_NE(last, nullptr);
  rte_pktmbuf_free(last);
}

TEST_F(MbufCacheTest, SeveralAreTakenAsOneByOne) {
  std::array<rte_mbuf*, 3 + kAhead> mbufs;
  for (rte_mbuf*& mbuf : mbufs) mbuf = rte_pktmbuf_alloc(pool_);
  FreeMbufs(mbufs.data(), mbufs.size());
  const uint32_t before = cache().len;
  CachedMbufs cached(pool_, 3, kAhead);
  EXPECT_EQ(cached.size(), before - kAhead);
  rte_mbuf* taken[3];
  for (size_t i = 0; i < 3; ++i) {
    taken[i] = cached.Next();
    EXPECT_EQ(taken[i], mbufs[mbufs.size() - 1 - i]);
    EXPECT_EQ(cached.upcoming(kAhead), cache().objs[before - 1 - i - kAhead]);
  }
  EXPECT_EQ(cache().len, before) << "they are taken together";
  cached.Take(3);
  EXPECT_EQ(cache().len, before - 3);
  FreeMbufs(taken, 3);
}

TEST_F(MbufCacheTest, ACacheWithTooFewMbufsIsFilled) {
  EXPECT_EQ(cache().len, 0u);
  EXPECT_EQ(CachedMbufs(pool_, 1, kAhead).size(), kCached - kAhead);
  EXPECT_EQ(cache().len, kCached);
}

TEST_F(MbufCacheTest, AnEmptyPoolOffersNone) {
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_)) all.push_back(mbuf);
  EXPECT_EQ(CachedMbufs(pool_, 1, kAhead).size(), 0u);
  FreeMbufs(all.data(), static_cast<unsigned>(all.size()));
}

TEST_F(MbufCacheTest, AFullCacheGivesTheRestToThePool) {
  std::vector<rte_mbuf*> mbufs(cache().flushthresh + 1);
  for (rte_mbuf*& mbuf : mbufs) {
    mbuf = rte_pktmbuf_alloc(pool_);
    ASSERT_NE(mbuf, nullptr);
  }
  FreeMbufs(mbufs.data(), static_cast<unsigned>(mbufs.size()));
  EXPECT_LE(cache().len, cache().flushthresh);
}

TEST_F(MbufCacheTest, MbufsOfPoolsWithAndWithoutACacheAreFreedTogether) {
  rte_mempool* const uncached =
      rte_pktmbuf_pool_create("uncached", kMbufs, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  ASSERT_NE(uncached, nullptr);
  rte_mbuf* mbufs[] = {rte_pktmbuf_alloc(pool_), rte_pktmbuf_alloc(uncached),
                       rte_pktmbuf_alloc(pool_), rte_pktmbuf_alloc(uncached)};
  FreeMbufs(mbufs, 4);
  EXPECT_EQ(rte_mempool_avail_count(uncached), kMbufs);
  rte_mempool_free(uncached);
}

TEST_F(MbufCacheTest, FreeKeepsASharedMbufAndFreesAllSegments) {
  rte_mbuf* shared = rte_pktmbuf_alloc(pool_);
  rte_mbuf_refcnt_update(shared, 1);
  rte_mbuf* head = rte_pktmbuf_alloc(pool_);
  ASSERT_EQ(rte_pktmbuf_chain(head, rte_pktmbuf_alloc(pool_)), 0);
  rte_mbuf* both[] = {shared, head};
  FreeMbufs(both, 2);
  EXPECT_EQ(rte_mempool_in_use_count(pool_), 1u);
  EXPECT_EQ(rte_mbuf_refcnt_read(shared), 1);
  FreeMbufs(&shared, 1);
}

}  // namespace
}  // namespace pollux::io
