// Who polls a worker for which threads wait: they themselves, or a thread of its own.
#ifndef POLLUX_STACK_ENGINE_LOOP_DRIVER_H_
#define POLLUX_STACK_ENGINE_LOOP_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "stack/engine/loop/clock.h"
#include "stack/engine/loop/ownership.h"

namespace pollux::engine {

// A thread that has asked a worker for something drives the worker while it waits (run to
// completion): what it asked for leaves on its own CPU, and no thread is woken for the answer. It
// does so for kPatienceNs, which is about what waking a thread costs, and then sleeps. The worker's
// own thread (PollThread) polls
//  - when nobody has driven for kAbandonedNs, or who drove hands over: who sleeps is to be told;
//  - while a Sleeper lives, turn by turn with those who drive.
// Otherwise it naps, so that who drives has its CPU for itself. Ownership makes any mix of these
// safe. EAL must be initialised (eal.h).
class Driver {
 public:
  static constexpr uint64_t kPatienceNs = 50'000;   // without anything done
  static constexpr uint64_t kAbandonedNs = 50'000;  // between two calls of a program that calls on
  static constexpr uint64_t kNapNs = 100'000;  // what a packet waits at most that comes meanwhile
  static constexpr uint32_t kIdleTurns = 256;  // before who drives gives its CPU away

  // `poll(now_ns)` is one turn of the loop and returns whether it did anything.
  explicit Driver(std::function<bool(uint64_t)> poll) : poll_(std::move(poll)) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // One turn of the worker's own thread, or a nap. The first comes before all else here: whoever
  // drives uses that thread's packet caches.
  bool TakeTurn(uint64_t now_ns);

  // Drives until `done()`, which is asked between turns; or until nothing was done for kPatienceNs,
  // or `longest_ns` are over. Not at all when another thread drives: it does so for this one too.
  // Whether it is done. Not on the worker's core, as all below.
  bool DriveUntil(const std::function<bool()>& done, uint64_t longest_ns = UINT64_MAX);
  // One turn, unless another thread is at it: what was asked for leaves.
  void DriveOnce();
  // The calling thread is about to wait for what the worker does, in ways not seen here.
  void HandOver();

  // Lives in a thread that sleeps until the worker's owner wakes it.
  class Sleeper {
   public:
    explicit Sleeper(Driver* driver) : driver_(driver) {
      driver_->sleepers_.fetch_add(1);
      driver_->EndNap();
    }
    ~Sleeper() { driver_->sleepers_.fetch_sub(1); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    Driver* driver_;
  };

 private:
  // Whether the worker's own thread is to poll now.
  bool IsNeeded() const;
  void Nap();
  void EndNap();
  // By who drives.
  bool Turn();

  std::function<bool(uint64_t)> poll_;
  const Clock clock_;
  std::optional<Ownership> ownership_;  // since the first turn
  std::atomic<bool> driven_{false};     // by a thread other than the worker's
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint64_t> driven_ns_{0};  // when it was last; 0: handed over
  std::atomic<uint32_t> napping_{0};    // a futex
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_DRIVER_H_
