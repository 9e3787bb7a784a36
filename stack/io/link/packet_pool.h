// The buffers of packets.
#ifndef POLLUX_STACK_IO_LINK_PACKET_POOL_H_
#define POLLUX_STACK_IO_LINK_PACKET_POOL_H_

#include <rte_mempool.h>

#include <cstdint>
#include <string>

namespace pollux::io {

// As rte_pktmbuf_pool_create(), with a name that no other pool has: `buffers` buffers of
// `buffer_bytes` bytes, headroom included, of which each lcore keeps up to `cached`. Free it by
// rte_mempool_free(). Returns null, with rte_errno set, if there is no memory.
//
// Without huge pages and PCI devices, the buffers are not in EAL's memory but in transparent huge
// pages, if the kernel has some. EAL's pages are of 4 KiB there, and each costs a page fault when
// the pool is created. EAL also clears memory that is freed, with a fault for each unused page.
rte_mempool* CreatePacketPool(const std::string& name, uint32_t buffers, uint32_t cached,
                              uint16_t buffer_bytes);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_PACKET_POOL_H_
