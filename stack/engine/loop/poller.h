// Objects that a worker's loop calls while they are awake.
#ifndef POLLUX_STACK_ENGINE_LOOP_POLLER_H_
#define POLLUX_STACK_ENGINE_LOOP_POLLER_H_

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
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
  PollerList() { wakeup_.Sleep(); }
  void Add(Poller* poller) {
    pollers_.push_back(poller);
    poller->wakeup_.JoinWhole(&wakeup_, BitOf(pollers_.size() - 1));
  }
  // Does nothing if the list does not have it.
  void Remove(Poller* poller) {
    const auto at = std::find(pollers_.begin(), pollers_.end(), poller);
    if (at == pollers_.end()) return;
    *at = nullptr;
    removed_ = true;
    poller->wakeup_.LeaveWhole();
    wakeup_.Wake();
  }
  // Returns whether any poller did work.
  [[gnu::always_inline]] bool Run(uint64_t now_ns) {
    if (wakeup_.awake()) return RunAwake(now_ns);
    assert(AreQuiet(0, pollers_.size(), now_ns) && "a poller that is not polled has work");
    return false;
  }

 private:
  // The pollers from this one on share a bit.
  static constexpr size_t kLastBit = 63;
  static uint64_t BitOf(size_t i) { return uint64_t{1} << std::min(i, kLastBit); }

  // By index, because pollers add and remove pollers.
  bool RunAwake(uint64_t now_ns) {
    bool worked = false;
    [[maybe_unused]] size_t done = 0;
    uint64_t rest = ~uint64_t{0};
    while ((wakeup_.parts() & rest) != 0) {
      const auto i = static_cast<size_t>(std::countr_zero(wakeup_.parts() & rest));
      assert(AreQuiet(done, i, now_ns) && "a poller that is not polled has work");
      done = i + 1;
      rest = ~uint64_t{1} << i;
      wakeup_.SleepPart(BitOf(i));
      worked |= RunOne(i, now_ns);
      if (i == kLastBit) [[unlikely]]
        for (; done < pollers_.size(); ++done) worked |= RunOne(done, now_ns);
    }
    assert(AreQuiet(done, pollers_.size(), now_ns) && "a poller that is not polled has work");
    if (removed_) [[unlikely]]
      EraseRemoved();
    return worked;
  }
  [[gnu::always_inline]] bool RunOne(size_t i, uint64_t now_ns) {
    if (pollers_[i] == nullptr || !pollers_[i]->wakeup_.awake()) [[unlikely]]
      return false;
    const bool worked = pollers_[i]->Poll(now_ns);
    const Poller* const poller = pollers_[i];  // it may have removed itself
    if (poller != nullptr && poller->wakeup_.awake()) wakeup_.WakePart(BitOf(i));
    return worked;
  }
  [[gnu::noinline]] void EraseRemoved() {
    removed_ = false;
    std::erase(pollers_, nullptr);
    wakeup_.Sleep();
    for (size_t i = 0; i < pollers_.size(); ++i) {
      pollers_[i]->wakeup_.JoinWhole(&wakeup_, BitOf(i));
    }
  }
  // For assertions: whether the pollers from `i` to `end`, which are not polled in this turn, sleep
  // and have nothing to do.
  bool AreQuiet(size_t i, size_t end, uint64_t now_ns) {
    for (; i < end; ++i) {
      Poller* const poller = pollers_[i];
      if (poller != nullptr && (poller->wakeup_.awake() || poller->Poll(now_ns))) return false;
    }
    return true;
  }

  Wakeup wakeup_;                 // its parts are the pollers
  std::vector<Poller*> pollers_;  // null: removed, to be erased after the round
  bool removed_ = false;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_POLLER_H_
