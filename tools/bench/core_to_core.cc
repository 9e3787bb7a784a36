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
// All rounds of kCoreToCoreTurns take at most 50 ms on idle CPUs. The limit is for the callers: the
// connections of a node are not served meanwhile, and the peer notices that.
constexpr std::chrono::milliseconds kTimeLimit{100};
constexpr uint64_t kLoadsPerClock = 1'000;
// Cores of one socket were seen to take up to 110 ns, those of two sockets 160 ns and more.
constexpr double kFarNs = 130;

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
  struct alignas(128) Flag {
    std::atomic<bool> value{false};
  };
  Line ball;
  Flag ended;
  Series ns;
  bool late = false;
  std::latch both(2);
  std::atomic<bool> pinned{true};
  const auto take = [&](int cpu) {
    if (!PinThread(cpu)) pinned = false;
    both.arrive_and_wait();
    return pinned.load();
  };
  std::thread other([&] {
    if (!take(cpus[1])) return;
    for (uint64_t expected = 1;; expected += 2) {
      while (ball.value.load(std::memory_order_acquire) != expected) {
        if (ended.value.load(std::memory_order_relaxed)) return;
      }
      ball.value.store(expected + 1, std::memory_order_release);
    }
  });
  std::thread own([&] {
    if (!take(cpus[0])) return;
    const Clock::time_point limit = Clock::now() + kTimeLimit;
    uint64_t value = 0, loads = 0;
    for (uint64_t round = 0; round < kRounds && !late; ++round) {
      const Clock::time_point start = Clock::now();
      uint64_t turn = 0;
      for (; turn < turns && !late; ++turn, value += 2) {
        ball.value.store(value + 1, std::memory_order_release);
        do {
          late = ++loads % kLoadsPerClock == 0 && Clock::now() > limit;
        } while (ball.value.load(std::memory_order_acquire) != value + 2 && !late);
      }
      const std::chrono::duration<double, std::nano> took = Clock::now() - start;
      if (late && round > 0) break;
      ns.values.push_back(took.count() / static_cast<double>(2 * turn));
    }
    ended.value = true;
  });
  own.join();
  other.join();
  if (!pinned) return std::nullopt;
  // Of few rounds, those that the scheduler interrupted may be more than half.
  return late ? ns.Low() : ns.Median();
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
