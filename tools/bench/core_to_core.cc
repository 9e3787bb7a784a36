#include "tools/bench/core_to_core.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace pollux::tools {
namespace {

constexpr int kRounds = 21;
constexpr uint64_t kTurns = 2'000;

std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (pthread_getaffinity_np(pthread_self(), sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

std::optional<double> CoreToCoreNs() {
  using Clock = std::chrono::steady_clock;
  const std::vector<int> cpus = UsableCpus();
  if (cpus.size() < 2) return std::nullopt;
  struct alignas(128) Line {
    std::atomic<uint64_t> value{0};
  };
  Line ball;
  std::vector<double> rounds;
  std::thread other([&] {
    Pin(cpus[1]);
    for (uint64_t turn = 0; turn < kRounds * kTurns; ++turn) {
      while (ball.value.load(std::memory_order_acquire) != 2 * turn + 1) {
      }
      ball.value.store(2 * turn + 2, std::memory_order_release);
    }
  });
  std::thread own([&] {
    Pin(cpus[0]);
    for (int round = 0; round < kRounds; ++round) {
      const Clock::time_point start = Clock::now();
      for (uint64_t turn = 0; turn < kTurns; ++turn) {
        const uint64_t at = (round * kTurns + turn) * 2;
        ball.value.store(at + 1, std::memory_order_release);
        while (ball.value.load(std::memory_order_acquire) != at + 2) {
        }
      }
      const std::chrono::duration<double, std::nano> took = Clock::now() - start;
      rounds.push_back(took.count() / (2 * kTurns));
    }
  });
  own.join();
  other.join();
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace pollux::tools
