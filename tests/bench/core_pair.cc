#include "tests/bench/core_pair.h"

#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>

#include <thread>

namespace pollux::bench {
namespace {

void Pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

void RunOnTwoCores(const std::function<void()>& a, const std::function<void()>& b, unsigned first) {
  const bool enough = std::thread::hardware_concurrency() >= first + 2;
  const auto run = [enough](unsigned cpu, const std::function<void()>& work) {
    if (enough) Pin(cpu);
    rte_thread_register();
    work();
    rte_thread_unregister();
  };
  std::thread other([&] { run(first + 1, b); });
  std::thread own([&] { run(first, a); });
  own.join();
  other.join();
}

}  // namespace pollux::bench
