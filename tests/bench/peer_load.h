// Other programs whose figures are shown beside those of Pollux.
#ifndef POLLUX_TESTS_BENCH_PEER_LOAD_H_
#define POLLUX_TESTS_BENCH_PEER_LOAD_H_

#include <string>

#include "absl/status/status.h"
#include "tests/bench/figures.h"

namespace pollux::bench {

// Runs one pass of `peer` ("ucx", "qperf", "sockperf") by `program` (peers.py), on CPUs that it
// chooses. Figures that it could not measure are in figures.missing. Internal if the program cannot
// be run or its output is invalid.
absl::Status RecordPeer(const std::string& program, const std::string& peer, double scale,
                        Figures& figures);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_PEER_LOAD_H_
