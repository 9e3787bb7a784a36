// Tells a poller that there is work for it.
#ifndef POLLUX_STACK_BASE_WAKEUP_H_
#define POLLUX_STACK_BASE_WAKEUP_H_

namespace pollux {

// What is asleep is not polled. Whoever gives it work wakes it; it goes to sleep by itself, before
// it looks for work, and wakes itself if it leaves any undone:
//
//   wakeup.Sleep();
//   ... do what there is to do ...
//   if (more is left) wakeup.Wake();
//
// so that no work that comes in between is missed. What has parts, each with a wakeup of its own,
// wakes itself also if one of them is awake after it was polled: a part that is awake already wakes
// nothing. Owned by one worker; all calls on its core.
class Wakeup {
 public:
  // Awake. `whole` (not owned, outlives this) is that of which this is a part; it wakes with it.
  explicit Wakeup(Wakeup* whole = nullptr) : whole_(whole) {
    if (whole != nullptr) whole->Wake();
  }
  void JoinWhole(Wakeup* whole) {
    whole_ = whole;
    if (awake_) whole->Wake();
  }

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
