// Reliable connections over one port that several workers share at each end.
#ifndef POLLUX_TESTS_BENCH_SHARED_PORT_H_
#define POLLUX_TESTS_BENCH_SHARED_PORT_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace pollux::bench {

// How the packets of a connection reach its workers.
enum class Hops : uint8_t {
  kNone,  // they arrive at the queues of their owners, as where the port sorts them
  kEach,  // every one, either way, arrives at the queue of another worker: a ring away
};

// SENDs of `bytes` a second, all connections together: one for each of `workers` (with kEach 2 or
// more), with `count` messages and `window` posted at once. Over net_ring, with as many queues as
// workers. A core polls one worker of each end by turns: as many cores as workers are busy.
absl::StatusOr<double> SharedPortSendsPerSecond(uint32_t workers, Hops hops, uint32_t bytes,
                                                uint64_t count, uint32_t window);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_SHARED_PORT_H_
