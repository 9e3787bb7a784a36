// Reliable connections over one port that several workers share at each end.
#ifndef POLLUX_TESTS_BENCH_SHARED_PORT_H_
#define POLLUX_TESTS_BENCH_SHARED_PORT_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace pollux::bench {

// The path of a connection's packets to its workers.
enum class Hops : uint8_t {
  kNone,  // they arrive at the queues of their owners, as if the port sorted them
  // each one, in both directions, arrives at the queue of another worker, which passes it on by a
  // ring
  kEach,
};

// SENDs of `bytes` per second over all connections together. Each of `workers` workers (at least 2
// with kEach) has one connection, with `count` messages and `window` posted at once. Uses net_ring
// with as many queues as workers. Each core polls one worker of each end in turn, so there is one
// busy core per worker of an end.
absl::StatusOr<double> SharedPortSendsPerSecond(uint32_t workers, Hops hops, uint32_t bytes,
                                                uint64_t count, uint32_t window);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_SHARED_PORT_H_
