#include "tests/bench/core_pair.h"

#include <rte_lcore.h>

#include <cstdio>
#include <cstdlib>
#include <latch>
#include <thread>
#include <vector>

#include "tools/bench/core_to_core.h"

namespace pollux::bench {

void RunOnTwoCores(const std::function<void()>& a, const std::function<void()>& b, unsigned first) {
  const std::vector<int> cpus = tools::UsableCpus();
  const bool enough = cpus.size() >= first + 2;
  std::latch both(2);
  const auto run = [&cpus, &both, enough](unsigned number, const std::function<void()>& work) {
    if (enough && !tools::PinThread(cpus[number])) {
      std::fprintf(stderr, "bench: CPU %d was taken away meanwhile\n", cpus[number]);
      std::abort();
    }
    rte_thread_register();
    both.arrive_and_wait();
    work();
    rte_thread_unregister();
  };
  std::thread other([&] { run(first + 1, b); });
  std::thread own([&] { run(first, a); });
  own.join();
  other.join();
}

}  // namespace pollux::bench
