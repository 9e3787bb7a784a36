#include "compat/process/disconnect_linger.h"

namespace pollux::compat {

DisconnectLinger::Step DisconnectLinger::Next(uint64_t now_ns) {
  if (now_ns - begun_ns_ >= kTimeoutNs) return Step::kGiveUp;
  if (now_ns - repeated_ns_ < kRepeatNs) return Step::kWait;
  repeated_ns_ = now_ns;
  return Step::kRepeat;
}

}  // namespace pollux::compat
