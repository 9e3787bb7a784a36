// The performance of the device alone, with which the bench compares: raw frames, and "+work", the
// work that every RoCE stack must do for each packet.
#ifndef POLLUX_TESTS_BENCH_DEVICE_LOAD_H_
#define POLLUX_TESTS_BENCH_DEVICE_LOAD_H_

#include <cstdint>

#include "stack/base/types.h"
#include "stack/io/link/link.h"
#include "tools/common/histogram.h"

struct rte_mempool;

namespace pollux::bench {

// One end of a wire: its link, the pool of its frames, and its addresses, which a kernel on the
// path examines.
struct WireEnd {
  io::Link* link;
  rte_mempool* pool;
  MacAddress mac;
  uint32_t address;  // IPv4, host order
};

// "+work": builds headers from a template, generates and checks the ICRC, and copies the payload
// from and to application buffers on both sides, without protocol state. "raw": frames of the same
// length without any of that.
enum class Work { kRaw, kPacket };

// The mean round trip time in ns for one frame with `payload` bytes at a time. With `each_ns`,
// which takes an additional read of the clock, records each round trip there.
double RoundTripNs(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds,
                   tools::Histogram* each_ns = nullptr);
// "+work" with the least RPC layer possible (least_rpc.h): ns for a NULL call with `window` (up to
// 128) of them under way.
double LeastCallNs(WireEnd client, WireEnd server, uint64_t calls, uint32_t window);
// Frames per second in one direction, with `payload` bytes.
double StreamPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t frames);
// Round trips per second with `window` frames in flight.
double EchoPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds,
                     uint32_t window);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_DEVICE_LOAD_H_
