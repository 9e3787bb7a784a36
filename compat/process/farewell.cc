#include "compat/process/farewell.h"

namespace pollux::compat {

Farewell::Step Farewell::Next(uint64_t now_ns) {
  if (now_ns - begun_ns_ >= kPatienceNs) return Step::kGiveUp;
  if (now_ns - repeated_ns_ < kRepeatNs) return Step::kWait;
  repeated_ns_ = now_ns;
  return Step::kRepeat;
}

}  // namespace pollux::compat
