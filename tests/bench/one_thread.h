// Two workers on one thread, in virtual time.
#ifndef POLLUX_TESTS_BENCH_ONE_THREAD_H_
#define POLLUX_TESTS_BENCH_ONE_THREAD_H_

#include <algorithm>
#include <cstdint>

#include "stack/engine/loop/worker.h"

namespace pollux::bench {

// The virtual time of one turn of both.
inline constexpr uint64_t kTurnNs = 1'000;

// Polls them in turn until `finished()` returns true.
template <class Finished>
void TakeTurns(engine::Worker& a, engine::Worker& b, Finished finished) {
  uint64_t now_ns = std::max(a.now_ns(), b.now_ns());
  while (!finished()) {
    now_ns += kTurnNs;
    a.Poll(now_ns);
    b.Poll(now_ns);
  }
}

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_ONE_THREAD_H_
