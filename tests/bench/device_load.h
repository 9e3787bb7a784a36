// What the device alone can do: raw frames, and "+work", the least that any RoCE stack must do for
// each packet. The denominators of the bench.
#ifndef POLLUX_TESTS_BENCH_DEVICE_LOAD_H_
#define POLLUX_TESTS_BENCH_DEVICE_LOAD_H_

#include <cstdint>

#include "stack/transport/link.h"

struct rte_mempool;

namespace pollux::bench {

// One end of a wire: its link and the pool that its frames come from.
struct WireEnd {
  transport::Link* link;
  rte_mempool* pool;
};

// "+work": headers built from a template, the ICRC made and checked, the payload copied out of and
// into application buffers on both sides; no protocol state. "raw": frames of the same length, none
// of that.
enum class Work { kRaw, kPacket };

// Mean round trip in ns of one frame with `payload` bytes at a time.
double RoundTripNs(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds);
// Frames a second with `payload` bytes one way.
double StreamPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t frames);
// Round trips a second with `window` at once.
double EchoPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds,
                     uint32_t window);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_DEVICE_LOAD_H_
