// A thread that polls a worker.
#ifndef POLLUX_STACK_ENGINE_POLLING_PROGRESS_THREAD_H_
#define POLLUX_STACK_ENGINE_POLLING_PROGRESS_THREAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/engine/polling/application_activity.h"
#include "stack/engine/polling/clock.h"
#include "stack/engine/polling/idle_option.h"
#include "stack/engine/polling/ownership.h"
#include "stack/engine/polling/progress_policy.h"
#include "stack/engine/polling/shared_poll.h"
#include "stack/transport/ack_policy.h"

namespace pollux::engine {

// Runs a worker's loop, either alone or in turn with application threads. ProgressPolicy decides
// when to poll and how to idle. If others poll as well, the thread takes ownership of the worker
// (Ownership) for one turn at a time. Any mix of callers is safe; if both want to poll, the
// application's thread does. Runs from Start() until it is destroyed. InitEal() must have
// succeeded.
class ProgressThread {
 public:
  using Found = ProgressPolicy::Found;
  // One turn of the loop. Called and destroyed on the thread.
  using Poll = absl::AnyInvocable<Found(uint64_t now_ns, transport::AckPolicy::Action acks)>;
  using SimplePoll = absl::AnyInvocable<bool(uint64_t now_ns)>;  // returns whether it did any work
  struct Options {
    ProgressPolicy::Options policy;
    std::optional<int> cpu;  // pins the thread to this CPU; empty: not pinned
    // For Idle::kSleep: returns when the next timer is due, as Worker::NextDeadline(). Null: there
    // are no timers. Called after a turn, by the owner.
    std::function<uint64_t()> next_deadline_ns;
    // For an application that polls, too: set both, which must outlive this object, or neither.
    Ownership* ownership = nullptr;
    ApplicationActivity* activity = nullptr;
    // Starts the thread; null: std::thread does.
    std::function<std::thread(std::function<void()> run)> start;
  };

  // Registers the thread with DPDK, so that packet pools have a cache for it; an Ownership does
  // that itself. Errors: InvalidArgument for a CPU that this process may not use; ResourceExhausted
  // if DPDK has no thread identifiers left (RTE_MAX_LCORE, 128, per process).
  static absl::StatusOr<std::unique_ptr<ProgressThread>> Start(const Options& options, Poll poll);
  static absl::StatusOr<std::unique_ptr<ProgressThread>> Start(const Options& options,
                                                               SimplePoll poll);
  // For a worker that waiting threads poll too. `shared` must outlive this object.
  static absl::StatusOr<std::unique_ptr<ProgressThread>> Start(const Options& options,
                                                               SharedPoll* shared);
  ~ProgressThread() { Stop(); }

  // Stops the thread and returns after it has ended. Must not be called on the thread itself.
  void Stop();

  // How often the thread has slept (Idle::kSleep). Thread-safe.
  uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

 private:
  ProgressThread(const Options& options, Poll poll, SharedPoll* shared);
  absl::Status Launch();
  absl::Status Prepare();
  void Run();
  bool TakesTurn(uint64_t now_ns);
  void Rest(ProgressPolicy::Pause pause);
  // A woken thread waits until the time slice of the running program ends, which takes
  // milliseconds, unless its own slice is shorter. A shorter slice does not increase any thread's
  // share of the CPU, and a program that sleeps gets its CPU back from this thread just as soon. A
  // larger share needs a lower nice value. If the process has no right to set it, the thread keeps
  // its usual one.
  void SetBoost(SchedulingBoost boost);

  const Options options_;
  SharedPoll* const shared_;
  Poll poll_;
  const Clock clock_;
  ProgressPolicy policy_;
  ApplicationActivity own_activity_;  // used if there is no application
  ApplicationActivity* activity_;     // never null
  Ownership* ownership_;              // null: no other thread polls
  const bool registers_;              // with DPDK
  uint32_t announced_ = 0;            // by the activity before the last turn
  SchedulingBoost boost_ = SchedulingBoost::kNone;
  int usual_nice_ = 0;  // the nice value without a boost, or the one that was set since
  int nice_ahead_ = 0;  // the nice value that was last requested for kAhead
  bool refused_ = false;
  std::atomic<bool> stop_{false};
  // Written at each sleep, so it is kept off the cache line that the thread reads at each turn.
  alignas(64) std::atomic<uint64_t> sleeps_{0};
  std::thread thread_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_PROGRESS_THREAD_H_
