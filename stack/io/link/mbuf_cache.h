// Access to this core's cache of a packet pool without DPDK's functions: the packet path takes and
// frees a few frames at a time.
#ifndef POLLUX_STACK_IO_LINK_MBUF_CACHE_H_
#define POLLUX_STACK_IO_LINK_MBUF_CACHE_H_

#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pollux::io {

// Takes an uninitialised mbuf from the cache of `pool`. Returns null unless the cache holds more
// than `ahead` (a thread that is not an lcore has no cache): the caller then allocates from the
// pool. `*upcoming` is the mbuf that will be taken after `ahead - 1` others, so that it can be
// prefetched.
inline rte_mbuf* TakeCachedMbuf(rte_mempool* pool, uint32_t ahead, const void** upcoming) {
  rte_mempool_cache* cache = rte_mempool_default_cache(pool, rte_lcore_id());
  if (cache == nullptr || cache->len <= ahead) [[unlikely]]
    return nullptr;
  auto* mbuf = static_cast<rte_mbuf*>(cache->objs[--cache->len]);
  *upcoming = cache->objs[cache->len - ahead];
  return mbuf;
}

// The mbufs in this core's cache of a packet pool, for a caller that takes several at a time. Until
// Take() is called nothing else may use the cache.
class CachedMbufs {
 public:
  // If the cache holds fewer than `wanted` mbufs, it is filled from `pool` first. `ahead` mbufs
  // always stay in the cache, so that the caller can prefetch them, as in TakeCachedMbuf().
  CachedMbufs(rte_mempool* pool, uint32_t wanted, uint32_t ahead)
      : cache_(rte_mempool_default_cache(pool, rte_lcore_id())) {
    if (cache_ == nullptr) [[unlikely]]
      return;
    if (cache_->len < wanted + ahead) [[unlikely]]
      Fill(pool, cache_);
    if (cache_->len <= ahead) [[unlikely]]
      return;
    size_ = cache_->len - ahead;
    next_ = &cache_->objs[cache_->len - 1];
  }
  // 0 if the pool is empty, or if this thread has no cache.
  uint32_t size() const { return size_; }
  // Returns the next mbuf, which is uninitialised; at most size() times.
  rte_mbuf* Next() { return static_cast<rte_mbuf*>(*next_--); }
  // The mbuf that Next() will return after `ahead` - 1 others.
  const void* upcoming(size_t ahead) const { return *(next_ - (ahead - 1)); }
  // Takes the `count` mbufs that Next() has returned out of the cache.
  void Take(uint32_t count) { cache_->len -= count; }

 private:
  [[gnu::noinline]] static void Fill(rte_mempool* pool, rte_mempool_cache* cache) {
    if (cache->len >= cache->size) return;
    const uint32_t missing = cache->size - cache->len;
    if (rte_mempool_ops_dequeue_bulk(pool, &cache->objs[cache->len], missing) == 0) {
      cache->len = cache->size;
    }
  }

  rte_mempool_cache* cache_;
  void* const* next_ = nullptr;
  uint32_t size_ = 0;
};

// As rte_pktmbuf_free_bulk(), but faster for frames in one segment: each is put into the cache of
// its pool.
[[gnu::always_inline]] inline void FreeMbufs(rte_mbuf* const* mbufs, unsigned count) {
  // Reference count and number of segments, as words of rearm_data.
  constexpr uint64_t kMask = 0x0000'FFFF'FFFF'0000;
  constexpr uint64_t kOneOfEach = 0x0000'0001'0001'0000;
  static_assert(offsetof(rte_mbuf, refcnt) == offsetof(rte_mbuf, rearm_data) + 2 &&
                offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, rearm_data) + 4);
  rte_mempool* pool = nullptr;  // of the last mbuf of whose pool this thread has a cache
  rte_mempool_cache* cache = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* mbuf = mbufs[i];
    uint64_t words;
    std::memcpy(&words, &mbuf->rearm_data, sizeof words);
    // For any other mbuf the second cache line is needed, which another core may hold.
    if ((words & kMask) != kOneOfEach || !RTE_MBUF_DIRECT(mbuf)) [[unlikely]] {
      rte_pktmbuf_free(mbuf);
      continue;
    }
    if (mbuf->pool != pool) [[unlikely]] {
      rte_mempool_cache* const other = rte_mempool_default_cache(mbuf->pool, rte_lcore_id());
      if (other == nullptr) [[unlikely]] {
        rte_mempool_put(mbuf->pool, mbuf);
        continue;
      }
      pool = mbuf->pool;
      cache = other;
    }
    if (cache->len == cache->flushthresh) [[unlikely]] {
      rte_mempool_put(pool, mbuf);
      continue;
    }
    cache->objs[cache->len++] = mbuf;
  }
}

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_MBUF_CACHE_H_
