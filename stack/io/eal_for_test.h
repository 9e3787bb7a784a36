// EAL and packet buffers for this room's tests: no root, no hugepages, no PCI.
#ifndef POLLUX_STACK_IO_EAL_FOR_TEST_H_
#define POLLUX_STACK_IO_EAL_FOR_TEST_H_

#include <rte_mbuf.h>

#include <cstdint>
#include <vector>

namespace pollux::io {

// Initialises EAL once per process; aborts if that fails.
void InitEalForTest();
// A pool whose data room is 4,352 bytes after the headroom. Never freed: EAL's memory is released
// when the process exits.
rte_mempool* PoolForTest();
// A frame with these bytes, from PoolForTest().
rte_mbuf* FrameForTest(const std::vector<uint8_t>& bytes);
std::vector<uint8_t> BytesOf(const rte_mbuf* frame);
// The number of buffers of PoolForTest() that are in use.
unsigned FramesInUse();

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_EAL_FOR_TEST_H_
