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

constexpr uint32_t kBuffers = 2047, kCached = 256;
constexpr uint16_t kBufferBytes = RTE_PKTMBUF_HEADROOM + 4352;
constexpr size_t kPage = 4096;

TEST(PacketPoolTest, EveryBufferHasItsBytesAndMemoryIsReturned) {
  InitEalForTest();
  rte_mempool* const pool = CreatePacketPool("returned", kBuffers, kCached, kBufferBytes);
  ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
  EXPECT_EQ(rte_pktmbuf_data_room_size(pool), kBufferBytes);
  std::vector<rte_mbuf*> buffers;
  while (rte_mbuf* const buffer = rte_pktmbuf_alloc(pool)) buffers.push_back(buffer);
  ASSERT_EQ(buffers.size(), kBuffers);
  for (uint32_t i = 0; i < kBuffers; ++i) {
    EXPECT_EQ(buffers[i]->buf_len, kBufferBytes);
    std::memset(buffers[i]->buf_addr, static_cast<int>(i % 251), kBufferBytes);
  }
  for (uint32_t i = 0; i < kBuffers; ++i) {
    const auto* const bytes = static_cast<const uint8_t*>(buffers[i]->buf_addr);
    EXPECT_EQ(bytes[0], i % 251);
    EXPECT_EQ(bytes[kBufferBytes - 1], i % 251);
    EXPECT_EQ(buffers[i]->pool, pool);
  }
  void* const page =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(buffers[kBuffers / 2]) & ~(kPage - 1));
  for (rte_mbuf* buffer : buffers) rte_pktmbuf_free(buffer);
  rte_mempool_free(pool);
  unsigned char resident = 0;
  EXPECT_EQ(mincore(page, kPage, &resident), -1);
  EXPECT_EQ(errno, ENOMEM) << "not mapped any more";
}

TEST(PacketPoolTest, ANameInUseIsAnError) {
  InitEalForTest();
  rte_mempool* const pool = CreatePacketPool("taken", 31, 0, kBufferBytes);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(CreatePacketPool("taken", 31, 0, kBufferBytes), nullptr);
  EXPECT_EQ(rte_errno, EEXIST);
  rte_mempool_free(pool);
}

}  // namespace
}  // namespace pollux::io
