// Two threads, each on its own CPU, that run one measurement together.
#ifndef POLLUX_TESTS_BENCH_CORE_PAIR_H_
#define POLLUX_TESTS_BENCH_CORE_PAIR_H_

#include <functional>

namespace pollux::bench {

// Runs `a` on CPU `first` and `b` on the next (where there are so many; anywhere else), both
// registered with DPDK, and returns when both have ended.
void RunOnTwoCores(const std::function<void()>& a, const std::function<void()>& b,
                   unsigned first = 0);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_CORE_PAIR_H_
