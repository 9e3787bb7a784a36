// Tracks whether a poller has work to do.
#ifndef POLLUX_STACK_BASE_WAKEUP_H_
#define POLLUX_STACK_BASE_WAKEUP_H_

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
  void JoinWhole(Wakeup* whole) {
    whole_ = whole;
    if (awake_) whole->Wake();
  }
  void LeaveWhole() { whole_ = nullptr; }

  bool awake() const { return awake_; }
  void Wake() {
    for (Wakeup* at = this; at != nullptr && !at->awake_; at = at->whole_) at->awake_ = true;
  }
  void Sleep() { awake_ = false; }

 private:
  bool awake_ = true;
  Wakeup* whole_;
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_WAKEUP_H_
