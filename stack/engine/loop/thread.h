// A thread that does nothing but poll.
#ifndef POLLUX_STACK_ENGINE_LOOP_THREAD_H_
#define POLLUX_STACK_ENGINE_LOOP_THREAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/engine/loop/clock.h"
#include "stack/engine/loop/idle.h"

namespace pollux::engine {

struct PollOptions {
  // Done after `idle_turns` turns in a row without work, and after each further one; 0 turns:
  // never, as kSpin.
  Idle idle = Idle::kYield;
  uint32_t idle_turns = 256;
  // Of kSleep: when the next timer is due, as Worker::NextDeadline(); null: there are none.
  std::function<uint64_t()> next_deadline_ns;
};

// Calls `poll(now_ns)`, which returns whether it did anything, until `stop` is true. On the calling
// thread: for applications that poll on their own. `sleeps` counts those of kSleep.
void PollUntil(const std::atomic<bool>& stop, const PollOptions& options,
               absl::AnyInvocable<bool(uint64_t)>& poll, std::atomic<uint64_t>& sleeps);

// A thread of its own, registered with DPDK so that packet pools give it a cache. Runs from Start()
// until it is destroyed. EAL must be initialised (eal.h), with the system's rights to spare: at
// most RTE_MAX_LCORE (128) such threads a process.
class PollThread {
 public:
  struct Options {
    PollOptions poll;
    std::optional<int> cpu;  // pinned there; free to move without
  };

  // `poll` is called and destroyed on the thread. Errors: InvalidArgument for a CPU that this
  // process may not use, ResourceExhausted when DPDK has no more thread identifiers.
  static absl::StatusOr<std::unique_ptr<PollThread>> Start(const Options& options,
                                                           absl::AnyInvocable<bool(uint64_t)> poll);
  ~PollThread() { Stop(); }

  // Returns when the thread has ended. Not from the thread itself.
  void Stop();

  // How often it has slept (Idle::kSleep). Any thread.
  uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

 private:
  PollThread() = default;

  std::atomic<bool> stop_{false};
  // Written at each sleep: not on the line that the thread reads at each turn.
  alignas(64) std::atomic<uint64_t> sleeps_{0};
  std::thread thread_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_THREAD_H_
