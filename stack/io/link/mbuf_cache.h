// This core's cache of a packet pool, used without DPDK's calls: the packet path takes and gives
// back one frame at a time.
#ifndef POLLUX_STACK_IO_LINK_MBUF_CACHE_H_
#define POLLUX_STACK_IO_LINK_MBUF_CACHE_H_

#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>

namespace pollux::io {

// Takes an mbuf, not initialised, from the cache of `pool`. Null unless more than `ahead` lie there
// (a thread that is no lcore has no cache): the caller then asks the pool. `*upcoming` is the one
// that is taken after `ahead - 1` others, so that its lines can be fetched meanwhile.
inline rte_mbuf* TakeCachedMbuf(rte_mempool* pool, uint32_t ahead, const void** upcoming) {
  rte_mempool_cache* cache = rte_mempool_default_cache(pool, rte_lcore_id());
  if (cache == nullptr || cache->len <= ahead) [[unlikely]]
    return nullptr;
  auto* mbuf = static_cast<rte_mbuf*>(cache->objs[--cache->len]);
  *upcoming = cache->objs[cache->len - ahead];
  return mbuf;
}

// As rte_pktmbuf_free_bulk(), at less cost for frames in one piece: each goes into the cache of its
// pool.
inline void FreeMbufs(rte_mbuf* const* mbufs, unsigned count) {
  rte_mempool* pool = nullptr;  // of the last
  rte_mempool_cache* cache = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* mbuf = mbufs[i];
    // Whatever is not alone wants a look at its second line, which another core may hold.
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
