#include "stack/io/eal_for_test.h"

#include <rte_eal.h>
#include <rte_mempool.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace pollux::io {

void InitEalForTest() {
  static const bool done = [] {
    const char* arguments[] = {
        "test", "--no-huge", "--no-pci",      "--no-shconf", "--no-telemetry",
        "-m",   "256",       "--log-level=1", "-l",          "0"};
    if (rte_eal_init(10, const_cast<char**>(arguments)) < 0) {
      std::fprintf(stderr, "rte_eal_init failed\n");
      std::abort();
    }
    return true;
  }();
  (void)done;
}

rte_mempool* PoolForTest() {
  InitEalForTest();
  static rte_mempool* const pool =
      rte_pktmbuf_pool_create("test_pool", 1023, 0, 0, 4352 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
  if (pool == nullptr) std::abort();
  return pool;
}

rte_mbuf* FrameForTest(const std::vector<uint8_t>& bytes) {
  rte_mbuf* frame = rte_pktmbuf_alloc(PoolForTest());
  if (frame == nullptr) std::abort();
  char* data = rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), data);
  return frame;
}

std::vector<uint8_t> BytesOf(const rte_mbuf* frame) {
  const uint8_t* data = rte_pktmbuf_mtod(frame, const uint8_t*);
  return {data, data + frame->data_len};
}

unsigned FramesInUse() { return rte_mempool_in_use_count(PoolForTest()); }

}  // namespace pollux::io
