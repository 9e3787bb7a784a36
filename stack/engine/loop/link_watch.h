// Checks a port's link on a timer: no interrupt tells a polled core that a cable was pulled.
#ifndef POLLUX_STACK_ENGINE_LOOP_LINK_WATCH_H_
#define POLLUX_STACK_ENGINE_LOOP_LINK_WATCH_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "stack/engine/timer/timing_wheel.h"
#include "stack/io/port/kernel_link.h"

namespace pollux::engine {

// Owned by the worker of the port; used on its core.
class LinkWatch {
 public:
  // Soon enough for programs that react to a lost link, at ten system calls per second.
  static constexpr uint64_t kIntervalNs = 100'000'000;
  using Look = absl::AnyInvocable<io::LinkState()>;

  // `changed` is called with each change since the previous check: IBV_EVENT_PORT_ACTIVE (up),
  // IBV_EVENT_PORT_ERR (down), IBV_EVENT_DEVICE_FATAL (the interface no longer exists).
  explicit LinkWatch(absl::AnyInvocable<void(ibv_event_type)> changed)
      : timer_(&LinkWatch::OnTimer, this), changed_(std::move(changed)) {}

  // Checks the link now, and from then on every kIntervalNs. `wheel` must outlive this object.
  void Start(TimingWheel* wheel, uint64_t now_ns, Look look);

  // The state at the last check; without Start(): up, at an unknown speed.
  const io::LinkState& state() const { return state_; }
  uint64_t downed() const { return downed_; }  // how often it has gone down

 private:
  static void OnTimer(void* watch, uint64_t now_ns);

  TimingWheel* wheel_ = nullptr;
  Timer timer_;
  Look look_;
  absl::AnyInvocable<void(ibv_event_type)> changed_;
  io::LinkState state_;
  uint64_t downed_ = 0;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_LINK_WATCH_H_
