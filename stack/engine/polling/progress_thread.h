// A thread that does nothing but poll.
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
#include "stack/engine/polling/idle.h"
#include "stack/engine/polling/ownership.h"
#include "stack/engine/polling/progress_policy.h"
#include "stack/engine/polling/shared_poll.h"
#include "stack/transport/ack_policy.h"

namespace pollux::engine {

// Takes turns of a worker's loop, alone or beside threads of the application that take some too;
// ProgressPolicy says when, and what it does in between. Where others poll it is the worker's owner
// (Ownership) for one turn at a time: any mix of the two is safe, and at worst both ask for turns
// and this thread stands back. Runs from Start() until it is destroyed. EAL must be initialised
// (eal.h).
class ProgressThread {
 public:
  using Found = ProgressPolicy::Found;
  // One turn of the loop. Called and destroyed on the thread.
  using Poll = absl::AnyInvocable<Found(uint64_t now_ns, transport::AckPolicy::Action acks)>;
  using SimplePoll = absl::AnyInvocable<bool(uint64_t now_ns)>;  // whether it did anything
  struct Options {
    ProgressPolicy::Options policy;
    std::optional<int> cpu;  // pinned there; free to move without
    // Of Idle::kSleep: when the next timer is due, as Worker::NextDeadline(); null: there are none.
    // Called after a turn, by the owner.
    std::function<uint64_t()> next_deadline_ns;
    // Of an application that polls too: both are given and outlive this, or neither is.
    Ownership* ownership = nullptr;
    ApplicationActivity* activity = nullptr;
    // Starts the thread; null: as std::thread does.
    std::function<std::thread(std::function<void()> run)> start;
  };

  // The thread is registered with DPDK so that packet pools give it a cache, unless it has an
  // Ownership, which does so. Errors: InvalidArgument for a CPU that this process may not use,
  // ResourceExhausted when DPDK has no more thread identifiers: at most RTE_MAX_LCORE (128) such
  // threads a process.
  static absl::StatusOr<std::unique_ptr<ProgressThread>> Start(const Options& options, Poll poll);
  static absl::StatusOr<std::unique_ptr<ProgressThread>> Start(const Options& options,
                                                               SimplePoll poll);
  // Beside threads that wait for the worker; `shared` outlives this.
  static absl::StatusOr<std::unique_ptr<ProgressThread>> Start(const Options& options,
                                                               SharedPoll* shared);
  ~ProgressThread() { Stop(); }

  // Returns when the thread has ended. Not from the thread itself.
  void Stop();

  // How often it has slept (Idle::kSleep). Any thread.
  uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

 private:
  ProgressThread(const Options& options, Poll poll, SharedPoll* shared);
  absl::Status Launch();
  absl::Status Prepare();
  void Run();
  bool TakesTurn(uint64_t now_ns);
  void Rest(ProgressPolicy::Pause pause);
  // A thread that is woken waits for the end of the slice of a program that runs on, milliseconds,
  // unless its own is shorter. That makes no thread's share of the CPU larger, and a program that
  // sleeps wants its CPU from this thread as soon. A larger share is by a nice value, which the
  // process may be refused: then this thread does without.
  void SetBoost(SchedulingBoost boost);

  const Options options_;
  SharedPoll* const shared_;
  Poll poll_;
  const Clock clock_;
  ProgressPolicy policy_;
  ApplicationActivity own_activity_;  // of nobody
  ApplicationActivity* activity_;     // never null
  Ownership* ownership_;              // null: nobody else polls
  const bool registers_;              // with DPDK
  SchedulingBoost boost_ = SchedulingBoost::kNone;
  int usual_nice_ = 0;  // when it was last without a boost, or what it was given since
  int nice_ahead_ = 0;  // what was asked for last
  bool refused_ = false;
  std::atomic<bool> stop_{false};
  // Written at each sleep: not on the line that the thread reads at each turn.
  alignas(64) std::atomic<uint64_t> sleeps_{0};
  std::thread thread_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_PROGRESS_THREAD_H_
