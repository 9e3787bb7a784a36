// Objects that a worker's loop calls while they are awake.
#ifndef POLLUX_STACK_ENGINE_LOOP_POLLER_H_
#define POLLUX_STACK_ENGINE_LOOP_POLLER_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "stack/base/wakeup.h"

namespace pollux::engine {

// Implemented by objects that a worker's loop calls: CM, RPC-over-RDMA, an application. The worker
// does not own them; see Worker::AddPoller().
class Poller {
 public:
  virtual ~Poller() = default;
  // Called once per turn on the worker's core while the poller is awake, after packets and timers
  // and before posted requests are sent. Returns whether it did any work. May create and destroy
  // objects, and add and remove pollers, including itself.
  virtual bool Poll(uint64_t now_ns) = 0;
  // A poller that never calls Sleep() is polled in every turn.
  Wakeup& wakeup() { return wakeup_; }

 private:
  friend class PollerList;
  Wakeup wakeup_;
};

// The pollers of one worker, in the order in which they were added.
class PollerList {
 public:
  void Add(Poller* poller) {
    pollers_.push_back(poller);
    poller->wakeup_.JoinWhole(&wakeup_);
  }
  void Remove(Poller* poller) {
    std::replace(pollers_.begin(), pollers_.end(), poller, static_cast<Poller*>(nullptr));
    removed_ = true;
    poller->wakeup_.LeaveWhole();
    wakeup_.Wake();
  }
  // Returns whether any poller did work.
  [[gnu::always_inline]] bool Run(uint64_t now_ns) {
    if (wakeup_.awake()) return RunAwake(now_ns);
    assert(IsQuiet(now_ns) && "a poller that is asleep has work");
    return false;
  }

 private:
  // By index, because pollers add and remove pollers.
  bool RunAwake(uint64_t now_ns) {
    wakeup_.Sleep();
    bool worked = false;
    bool is_one_awake = false;
    for (size_t i = FirstAwake(0, now_ns); i < pollers_.size(); i = FirstAwake(i + 1, now_ns)) {
      worked |= pollers_[i]->Poll(now_ns);
      const Poller* const poller = pollers_[i];  // it may have removed itself
      is_one_awake |= poller != nullptr && poller->wakeup_.awake();
    }
    if (std::exchange(removed_, false)) std::erase(pollers_, nullptr);
    if (is_one_awake) wakeup_.Wake();
    return worked;
  }
  // The index of the first poller at or after `i` that is awake; pollers_.size() if there is none.
  [[gnu::always_inline]] size_t FirstAwake(size_t i, [[maybe_unused]] uint64_t now_ns) const {
    Poller* const* const pollers = pollers_.data();
    const size_t count = pollers_.size();
    for (; i < count; ++i) {
      if (pollers[i] == nullptr) continue;
      if (pollers[i]->wakeup_.awake()) break;
      assert(!pollers[i]->Poll(now_ns) && "a poller that is asleep has work");
    }
    return i;
  }
  // For assertions: polls the sleeping pollers, which must find nothing to do.
  bool IsQuiet(uint64_t now_ns) {
    return std::ranges::none_of(
        pollers_, [now_ns](Poller* poller) { return poller != nullptr && poller->Poll(now_ns); });
  }

  Wakeup wakeup_;                 // awake if the wakeup of any poller is
  std::vector<Poller*> pollers_;  // null: removed, to be erased after the round
  bool removed_ = false;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_POLLER_H_
