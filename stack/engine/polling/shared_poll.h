// Threads that wait for a worker poll it meanwhile.
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

// A native application's thread that has asked a worker for something polls it while it waits (run
// to completion): what it asked for leaves on its own CPU, and no thread is woken for the answer.
// It does so for kSpinNs, which is about what waking a thread costs, and then sleeps. The worker's
// ProgressThread polls when nobody has for a while, or a waiting thread sleeps or hands over.
// Ownership makes any mix of these safe. EAL must be initialised (eal.h).
//
// Apart from ProgressThread, since a worker has this only where threads wait for it, and it has no
// thread of its own; ProgressThread has the policy of both. Calls of unmodified verbs programs do
// not come here: each takes one turn, whether it waits or not.
class SharedPoll {
 public:
  static constexpr uint64_t kSpinNs = 50'000;  // without anything done
  static constexpr uint32_t kIdleTurns = 256;  // before the waiting thread gives its CPU away

  // `poll(now_ns)` is one turn of the loop and returns whether it did anything.
  explicit SharedPoll(std::function<bool(uint64_t)> poll) : poll_(std::move(poll)) {}
  SharedPoll(const SharedPoll&) = delete;
  SharedPoll& operator=(const SharedPoll&) = delete;

  // Before all else here, by the ProgressThread: whoever polls uses the packet caches of `lcore`.
  void Begin(unsigned lcore) { ownership_.emplace(lcore); }

  // Polls until `done()`, which is asked between turns; or until nothing was done for kSpinNs, or
  // `longest_ns` are over. Not at all when another thread is at it: it polls for this one too.
  // Whether it is done. Not on the worker's core, as all below.
  bool PollUntil(const std::function<bool()>& done, uint64_t longest_ns = UINT64_MAX);
  // One turn, unless another thread is at it: what was asked for leaves.
  void PollOnce();
  // The calling thread is about to wait for what the worker does, in ways not seen here.
  void HandOver() { activity_.HandOver(); }

  // Lives in a thread that sleeps until the worker's owner wakes it.
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
  // By a thread that waits and is the owner.
  bool TakeTurn();

  std::function<bool(uint64_t)> poll_;
  const Clock clock_;
  std::optional<Ownership> ownership_;
  std::atomic<bool> polled_{false};  // by a thread that waits
  ApplicationActivity activity_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_SHARED_POLL_H_
