// Lets threads that wait for a worker poll it while they wait.
#ifndef POLLUX_STACK_ENGINE_POLLING_SHARED_POLL_H_
#define POLLUX_STACK_ENGINE_POLLING_SHARED_POLL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "stack/engine/polling/application_activity.h"
#include "stack/engine/polling/clock.h"
#include "stack/engine/polling/ownership.h"

namespace pollux::engine {

// A thread of a native application that has sent a request to a worker polls the worker while it
// waits (run to completion). The request is sent on the thread's own CPU, and no thread must be
// woken for the reply. The thread polls for kSpinNs, about as long as waking a thread takes, and
// then sleeps. The worker's ProgressThread polls when no other thread has polled for a while, or
// when a waiting thread sleeps or calls HandOver(). Ownership makes any mix of these safe.
// InitEal() must have succeeded.
//
// This class is separate from ProgressThread because only workers that threads wait for need it,
// and it has no thread of its own; ProgressThread holds the policy of both. Unmodified verbs
// programs do not use it: each of their calls takes one turn, whether it waits or not.
class SharedPoll {
 public:
  // For how long a waiting thread polls without finding work.
  static constexpr uint64_t kSpinNs = 50'000;
  static constexpr uint32_t kIdleTurns = 256;  // turns without work before it yields the CPU

  // `poll(now_ns)` runs one turn of the loop and returns whether it did any work.
  explicit SharedPoll(std::function<bool(uint64_t)> poll) : poll_(std::move(poll)) {}
  SharedPoll(const SharedPoll&) = delete;
  SharedPoll& operator=(const SharedPoll&) = delete;

  // Called by the ProgressThread before any other function. Polling threads use the packet caches
  // of `lcore`.
  void Begin(unsigned lcore) { ownership_.emplace(lcore); }

  // Polls until `done()` is true, no work was found for kSpinNs, or `longest_ns` have passed.
  // `done()` is called between turns. Returns without polling if another waiting thread polls: that
  // one polls for both. Returns whether `done()` was true. Like all functions below, it must not be
  // called on the worker's core.
  bool PollUntil(const std::function<bool()>& done, uint64_t longest_ns = UINT64_MAX);
  // Runs one turn, which sends what was requested, unless another thread polls.
  void PollOnce();
  // Call it before the thread waits for the worker by other means than this class.
  void HandOver() { activity_.HandOver(); }

  // Exists while a thread sleeps until the worker's owner wakes it.
  class Sleeper {
   public:
    explicit Sleeper(SharedPoll* poll) : activity_(&poll->activity_) { activity_->SleepBegins(); }
    ~Sleeper() { activity_->SleepEnds(); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    ApplicationActivity* activity_;
  };

  // For the ProgressThread.
  Ownership* ownership() { return &*ownership_; }
  ApplicationActivity* activity() { return &activity_; }
  bool Poll(uint64_t now_ns) { return poll_(now_ns); }

 private:
  // Called by a waiting thread that is the owner.
  bool TakeTurn();

  std::function<bool(uint64_t)> poll_;
  const Clock clock_;
  std::optional<Ownership> ownership_;
  std::atomic<bool> polled_{false};  // by a waiting thread
  ApplicationActivity activity_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_SHARED_POLL_H_
