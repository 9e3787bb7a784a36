// A thread that does nothing but poll.
#ifndef POLLUX_STACK_ENGINE_THREAD_H_
#define POLLUX_STACK_ENGINE_THREAD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/engine/clock.h"

namespace pollux::engine {

struct PollOptions {
  // Gives the CPU away (sched_yield) after this many turns in a row without work, and after each
  // further one; 0: never, for machines that have a core to spare for each worker.
  uint32_t yield_after_idle = 256;
};

// Calls `poll(now_ns)`, which returns whether it did anything, until `stop` is true. On the calling
// thread: for applications that poll on their own.
void PollUntil(const std::atomic<bool>& stop, const PollOptions& options,
               absl::AnyInvocable<bool(uint64_t)>& poll);

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

 private:
  PollThread() = default;

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_THREAD_H_
