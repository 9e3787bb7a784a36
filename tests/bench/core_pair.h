// Two threads, each on its own CPU, that run one measurement together.
#ifndef POLLUX_TESTS_BENCH_CORE_PAIR_H_
#define POLLUX_TESTS_BENCH_CORE_PAIR_H_

#include <functional>

namespace pollux::bench {

// Runs `a` on the CPU that is the caller's `first`, from 0, and `b` on its next (where it may use
// so many; else on any of them), both registered with DPDK, and returns when both have ended.
// Neither begins before the other is there.
void RunOnTwoCores(const std::function<void()>& a, const std::function<void()>& b,
                   unsigned first = 0);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_CORE_PAIR_H_
