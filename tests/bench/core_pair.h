// Runs one measurement on two threads, each on its own CPU.
#ifndef POLLUX_TESTS_BENCH_CORE_PAIR_H_
#define POLLUX_TESTS_BENCH_CORE_PAIR_H_

#include <functional>

namespace pollux::bench {

// Runs `a` on the CPU number `first` (from 0) of those that the caller may use, and `b` on the next
// one, or both on any of them if there are fewer CPUs. The threads are registered with DPDK, and
// neither function starts before both threads are ready. Returns when both have ended.
void RunOnTwoCores(const std::function<void()>& a, const std::function<void()>& b,
                   unsigned first = 0);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_CORE_PAIR_H_
