#include "stack/engine/loop/link_watch.h"

namespace pollux::engine {

void LinkWatch::Start(TimingWheel* wheel, uint64_t now_ns, Look look) {
  wheel_ = wheel;
  look_ = std::move(look);
  state_ = look_();
  wheel_->Arm(timer_, now_ns + kIntervalNs);
}

void LinkWatch::OnTimer(void* watch, uint64_t now_ns) {
  LinkWatch& self = *static_cast<LinkWatch*>(watch);
  self.wheel_->Arm(self.timer_, now_ns + kIntervalNs);
  const io::LinkState before = std::exchange(self.state_, self.look_());
  if (before.up && !self.state_.up) {
    ++self.downed_;
    self.changed_(IBV_EVENT_PORT_ERR);
  } else if (!before.up && self.state_.up) {
    self.changed_(IBV_EVENT_PORT_ACTIVE);
  }
  if (!before.gone && self.state_.gone) self.changed_(IBV_EVENT_DEVICE_FATAL);
}

}  // namespace pollux::engine
