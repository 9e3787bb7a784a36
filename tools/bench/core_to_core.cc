#include "tools/bench/core_to_core.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

namespace pollux::tools {
namespace {

constexpr uint64_t kRounds = 21;
// Between the two costs that virtual machines were seen to flip between, 110 and 520 ns.
constexpr double kFarNs = 250;

}  // namespace

bool PinThread(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

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

std::optional<double> CoreToCoreNs(const std::vector<int>& cpus, uint64_t turns) {
  using Clock = std::chrono::steady_clock;
  if (cpus.size() < 2) return std::nullopt;
  struct alignas(128) Line {
    std::atomic<uint64_t> value{0};
  };
  Line ball;
  Series ns;
  std::latch both(2);
  std::atomic<bool> pinned{true};
  const auto take = [&](int cpu) {
    if (!PinThread(cpu)) pinned = false;
    both.arrive_and_wait();
    return pinned.load();
  };
  std::thread other([&] {
    if (!take(cpus[1])) return;
    for (uint64_t turn = 0; turn < kRounds * turns; ++turn) {
      while (ball.value.load(std::memory_order_acquire) != 2 * turn + 1) {
      }
      ball.value.store(2 * turn + 2, std::memory_order_release);
    }
  });
  std::thread own([&] {
    if (!take(cpus[0])) return;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const Clock::time_point start = Clock::now();
      for (uint64_t turn = 0; turn < turns; ++turn) {
        const uint64_t at = (round * turns + turn) * 2;
        ball.value.store(at + 1, std::memory_order_release);
        while (ball.value.load(std::memory_order_acquire) != at + 2) {
        }
      }
      const std::chrono::duration<double, std::nano> took = Clock::now() - start;
      ns.values.push_back(took.count() / static_cast<double>(2 * turns));
    }
  });
  own.join();
  other.join();
  if (!pinned) return std::nullopt;
  return ns.Median();
}

const char* DistanceName(CoreDistance distance) {
  switch (distance) {
    case CoreDistance::kNear:
      return "near";
    case CoreDistance::kFar:
      return "far";
    case CoreDistance::kFlipped:
      return "now near, now far";
    case CoreDistance::kUnmeasured:
      break;
  }
  return "not measured";
}

CoreDistance DistanceOf(const Series& core_to_core_ns) {
  if (core_to_core_ns.values.empty()) return CoreDistance::kUnmeasured;
  if (core_to_core_ns.High() < kFarNs) return CoreDistance::kNear;
  return core_to_core_ns.Low() < kFarNs ? CoreDistance::kFlipped : CoreDistance::kFar;
}

}  // namespace pollux::tools
