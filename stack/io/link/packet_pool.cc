#include "stack/io/link/packet_pool.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

namespace pollux::io {
namespace {

constexpr size_t kHugePage = 2 << 20;

size_t WholeHugePages(size_t bytes) { return (bytes + kHugePage - 1) & ~(kHugePage - 1); }

void Unmap(rte_mempool_memhdr* memory, void* /*opaque*/) {
  munmap(memory->addr, WholeHugePages(memory->len));
}

// At a multiple of a huge page; null if there is no memory.
char* Map(size_t bytes) {
  const size_t whole = WholeHugePages(bytes);
  void* const mapped =
      mmap(nullptr, whole + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  char* const aligned = reinterpret_cast<char*>(WholeHugePages(reinterpret_cast<uintptr_t>(begin)));
  const auto before = static_cast<size_t>(aligned - begin);
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(aligned + whole, kHugePage - before);
  madvise(aligned, whole, MADV_HUGEPAGE);  // a kernel without them refuses
  return aligned;
}

// Returns 0 or an errno value.
int Populate(rte_mempool* pool, uint32_t buffers) {
  size_t chunk = 0, alignment = 0;
  const ssize_t bytes =
      rte_mempool_ops_calc_mem_size(pool, buffers, /*pg_shift=*/0, &chunk, &alignment);
  if (bytes <= 0) return bytes < 0 ? static_cast<int>(-bytes) : EINVAL;
  char* const memory = Map(static_cast<size_t>(bytes));
  if (memory == nullptr) return ENOMEM;
  const int added = rte_mempool_populate_iova(pool, memory, RTE_BAD_IOVA,
                                              static_cast<size_t>(bytes), &Unmap, nullptr);
  if (added <= 0) munmap(memory, WholeHugePages(static_cast<size_t>(bytes)));
  if (added == static_cast<int>(buffers)) return 0;
  return added < 0 ? -added : ENOMEM;
}

}  // namespace

rte_mempool* CreatePacketPool(const std::string& name, uint32_t buffers, uint32_t cached,
                              uint16_t buffer_bytes) {
  if (rte_eal_has_hugepages() != 0 || rte_eal_has_pci() != 0) {
    return rte_pktmbuf_pool_create(name.c_str(), buffers, cached, 0, buffer_bytes, SOCKET_ID_ANY);
  }
  rte_mempool* const pool = rte_mempool_create_empty(
      name.c_str(), buffers, static_cast<unsigned>(sizeof(rte_mbuf)) + buffer_bytes, cached,
      sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private sizes = {};
  sizes.mbuf_data_room_size = buffer_bytes;
  rte_pktmbuf_pool_init(pool, &sizes);
  const int set = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), nullptr);
  const int error = set < 0 ? -set : Populate(pool, buffers);
  if (error != 0) {
    rte_mempool_free(pool);
    rte_errno = error;
    return nullptr;
  }
  rte_mempool_obj_iter(pool, &rte_pktmbuf_init, nullptr);
  return pool;
}

}  // namespace pollux::io
