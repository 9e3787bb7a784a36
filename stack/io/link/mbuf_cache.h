// Access to this core's cache of a packet pool without DPDK's functions: the packet path allocates
// and frees one frame at a time.
#ifndef POLLUX_STACK_IO_LINK_MBUF_CACHE_H_
#define POLLUX_STACK_IO_LINK_MBUF_CACHE_H_

#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>

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

// As rte_pktmbuf_free_bulk(), but faster for frames in one segment: each is put into the cache of
// its pool.
inline void FreeMbufs(rte_mbuf* const* mbufs, unsigned count) {
  rte_mempool* pool = nullptr;  // of the previous mbuf
  rte_mempool_cache* cache = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* mbuf = mbufs[i];
    // For any other mbuf the second cache line is needed, which another core may hold.
    const bool alone =
        mbuf->nb_segs == 1 && rte_mbuf_refcnt_read(mbuf) == 1 && RTE_MBUF_DIRECT(mbuf);
    if (!alone) [[unlikely]] {
      rte_pktmbuf_free(mbuf);
      continue;
    }
    if (mbuf->pool != pool) [[unlikely]] {
      pool = mbuf->pool;
      cache = rte_mempool_default_cache(pool, rte_lcore_id());
    }
    if (cache == nullptr || cache->len == cache->flushthresh) [[unlikely]] {
      rte_mempool_put(pool, mbuf);
      continue;
    }
    cache->objs[cache->len++] = mbuf;
  }
}

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_MBUF_CACHE_H_
