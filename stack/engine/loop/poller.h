// Objects that a worker's loop calls in every turn.
#ifndef POLLUX_STACK_ENGINE_LOOP_POLLER_H_
#define POLLUX_STACK_ENGINE_LOOP_POLLER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pollux::engine {

// Implemented by objects that a worker's loop calls: CM, RPC-over-RDMA, an application. The worker
// does not own them; see Worker::AddPoller().
class Poller {
 public:
  virtual ~Poller() = default;
  // Called once per turn on the worker's core, after packets and timers and before posted requests
  // are sent. Returns whether it did any work. May create and destroy objects, and add and remove
  // pollers, including itself.
  virtual bool Poll(uint64_t now_ns) = 0;
};

// The pollers of one worker, in the order in which they were added.
class PollerList {
 public:
  void Add(Poller* poller) { pollers_.push_back(poller); }
  void Remove(Poller* poller) {
    std::replace(pollers_.begin(), pollers_.end(), poller, static_cast<Poller*>(nullptr));
    removed_ = true;
  }
  // Whether any did something. By index: pollers add and remove pollers.
  [[gnu::always_inline]] bool Run(uint64_t now_ns) {
    bool worked = false;
    for (size_t i = 0; i < pollers_.size(); ++i) {
      Poller* const poller = pollers_[i];
      if (poller != nullptr) [[likely]]
        worked |= poller->Poll(now_ns);
    }
    if (removed_) [[unlikely]]
      EraseRemoved();
    return worked;
  }

 private:
  void EraseRemoved() {
    removed_ = false;
    std::erase(pollers_, nullptr);
  }

  std::vector<Poller*> pollers_;  // null: removed, to be erased after the round
  bool removed_ = false;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_POLLER_H_
