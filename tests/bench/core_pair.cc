#include "tests/bench/core_pair.h"

#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "stack/engine/clock.h"

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

double CoreToCoreNs() {
  constexpr int kRounds = 21;
  constexpr uint64_t kTurns = 2'000;
  struct alignas(128) Line {
    std::atomic<uint64_t> value{0};
  };
  Line ball;
  std::vector<double> rounds;
  const engine::Clock clock;
  RunOnTwoCores(
      [&] {
        for (int round = 0; round < kRounds; ++round) {
          const uint64_t start_ns = clock.NowNs();
          for (uint64_t turn = 0; turn < kTurns; ++turn) {
            const uint64_t at = (round * kTurns + turn) * 2;
            ball.value.store(at + 1, std::memory_order_release);
            while (ball.value.load(std::memory_order_acquire) != at + 2) {
            }
          }
          rounds.push_back(static_cast<double>(clock.NowNs() - start_ns) / (2 * kTurns));
        }
      },
      [&] {
        for (uint64_t turn = 0; turn < kRounds * kTurns; ++turn) {
          while (ball.value.load(std::memory_order_acquire) != 2 * turn + 1) {
          }
          ball.value.store(2 * turn + 2, std::memory_order_release);
        }
      });
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace pollux::bench
