// What the device alone can do: raw frames, and "+work", the least that any RoCE stack must do for
// each packet. The denominators of the bench.
#ifndef POLLUX_TESTS_BENCH_DEVICE_LOAD_H_
#define POLLUX_TESTS_BENCH_DEVICE_LOAD_H_

#include <cstdint>

#include "stack/base/types.h"
#include "stack/io/link/link.h"
#include "tools/common/histogram.h"

struct rte_mempool;

namespace pollux::bench {

// One end of a wire: its link, the pool that its frames come from, and its addresses, which a
// kernel on the way looks at.
struct WireEnd {
  io::Link* link;
  rte_mempool* pool;
  MacAddress mac;
  uint32_t address;  // IPv4, host order
};

// "+work": headers built from a template, the ICRC made and checked, the payload copied out of and
// into application buffers on both sides; no protocol state. "raw": frames of the same length, none
// of that.
enum class Work { kRaw, kPacket };

// Mean round trip in ns of one frame with `payload` bytes at a time. With `each_ns`, which costs a
// look at the clock, each is recorded there too.
double RoundTripNs(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds,
                   tools::Histogram* each_ns = nullptr);
// Frames a second with `payload` bytes one way.
double StreamPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t frames);
// Round trips a second with `window` at once.
double EchoPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds,
                     uint32_t window);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_DEVICE_LOAD_H_
