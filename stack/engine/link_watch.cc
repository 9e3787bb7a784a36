#include "stack/engine/link_watch.h"

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
  const bool was_up = self.state_.up;
  self.state_ = self.look_();
  if (self.state_.up == was_up) return;
  if (was_up) ++self.downed_;
  self.changed_(self.state_.up);
}

}  // namespace pollux::engine
