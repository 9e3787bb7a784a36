// Tracks whether a poller has work to do.
#ifndef POLLUX_STACK_BASE_WAKEUP_H_
#define POLLUX_STACK_BASE_WAKEUP_H_

#include <cstdint>

namespace pollux {

// A sleeping poller is not polled. Code that gives it work must wake it. A poller goes to sleep
// before it looks for work, and wakes itself if any is left:
//
//   wakeup.Sleep();
//   ... do the work ...
//   if (more is left) wakeup.Wake();
//
// so that it does not miss work that arrives in between. An object may have parts, each with its
// own Wakeup. If a part is still awake after it was polled, the object must wake itself, too:
// waking a part that is already awake does not wake the whole. Owned by one worker; all calls on
// its core.
class Wakeup {
 public:
  // Starts awake. `whole` (not owned, outlives this unless LeaveWhole() was called) belongs to the
  // object of which this object's owner is a part, and wakes when this does.
  explicit Wakeup(Wakeup* whole = nullptr) : whole_(whole) {
    if (whole != nullptr) whole->Wake();
  }
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  // `bit`: a single bit, which is set in parts() of the whole when this part wakes. If the part is
  // still awake after SleepPart(), the whole must set it again, by WakePart().
  void JoinWhole(Wakeup* whole, uint64_t bit = 1) {
    whole_ = whole;
    bit_ = bit;
    if (awake()) whole->WakePart(bit);
  }
  void LeaveWhole() { whole_ = nullptr; }

  bool awake() const { return parts_ != 0; }
  void Wake() {
    if (!awake()) WakePart(1);
  }
  void Sleep() { parts_ = 0; }

  // For a whole that distinguishes its parts: the bits of those that have woken since it last slept
  // or called SleepPart().
  uint64_t parts() const { return parts_; }
  void WakePart(uint64_t bit) {
    for (Wakeup* at = this;;) {
      const bool was_awake = at->awake();
      at->parts_ |= bit;
      if (was_awake || at->whole_ == nullptr) return;
      bit = at->bit_;
      at = at->whole_;
    }
  }
  void SleepPart(uint64_t bit) { parts_ &= ~bit; }

 private:
  uint64_t parts_ = 1;
  Wakeup* whole_;
  uint64_t bit_ = 1;  // in the whole
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_WAKEUP_H_
