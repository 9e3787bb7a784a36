// Programs of others, beside whose figures Pollux's stand.
#ifndef POLLUX_TESTS_BENCH_PEER_LOAD_H_
#define POLLUX_TESTS_BENCH_PEER_LOAD_H_

#include <string>

#include "absl/status/status.h"
#include "tests/bench/figures.h"

namespace pollux::bench {

// One pass of `peer` ("ucx", "qperf", "sockperf") by `program` (peers.py), on CPUs of its own
// choice. What it could not measure is told by figures.missing. Errors: Internal when the program
// cannot be run or understood.
absl::Status RecordPeer(const std::string& program, const std::string& peer, double scale,
                        Figures& figures);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_PEER_LOAD_H_
