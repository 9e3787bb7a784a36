#include "stack/io/link/packet_pool.h"

#include <gtest/gtest.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "stack/io/eal_for_test.h"

namespace pollux::io {
namespace {

constexpr uint32_t kPoolBuffers = 2047, kPoolCached = 256;
constexpr uint16_t kPoolBufferBytes = RTE_PKTMBUF_HEADROOM + 4352;
constexpr size_t kPageBytes = 4096;

TEST(PacketPoolTest, EveryBufferHasItsBytesAndMemoryIsReturned) {
  InitEalForTest();
  rte_mempool* const pool =
      CreatePacketPool("returned", kPoolBuffers, kPoolCached, kPoolBufferBytes);
  ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
  EXPECT_EQ(rte_pktmbuf_data_room_size(pool), kPoolBufferBytes);
  std::vector<rte_mbuf*> buffers;
  while (rte_mbuf* const buffer = rte_pktmbuf_alloc(pool)) buffers.push_back(buffer);
  ASSERT_EQ(buffers.size(), kPoolBuffers);
  for (uint32_t i = 0; i < kPoolBuffers; ++i) {
    EXPECT_EQ(buffers[i]->buf_len, kPoolBufferBytes);
    std::memset(buffers[i]->buf_addr, static_cast<int>(i % 251), kPoolBufferBytes);
  }
  for (uint32_t i = 0; i < kPoolBuffers; ++i) {
    const auto* const bytes = static_cast<const uint8_t*>(buffers[i]->buf_addr);
    EXPECT_EQ(bytes[0], i % 251);
    EXPECT_EQ(bytes[kPoolBufferBytes - 1], i % 251);
    EXPECT_EQ(buffers[i]->pool, pool);
  }
  void* const page = reinterpret_cast<void*>(
      reinterpret_cast<uintptr_t>(buffers[kPoolBuffers / 2]) & ~(kPageBytes - 1));
  for (rte_mbuf* buffer : buffers) rte_pktmbuf_free(buffer);
  rte_mempool_free(pool);
  unsigned char resident = 0;
  EXPECT_EQ(mincore(page, kPageBytes, &resident), -1);
  EXPECT_EQ(errno, ENOMEM) << "not mapped any more";
}

TEST(PacketPoolTest, ANameInUseIsAnError) {
  InitEalForTest();
  rte_mempool* const pool = CreatePacketPool("taken", 31, 0, kPoolBufferBytes);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(CreatePacketPool("taken", 31, 0, kPoolBufferBytes), nullptr);
  EXPECT_EQ(rte_errno, EEXIST);
  rte_mempool_free(pool);
}

}  // namespace
}  // namespace pollux::io
