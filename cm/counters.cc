#include "cm/counters.h"

#include <iterator>

namespace pollux::cm {

const char* MadDropName(MadDrop drop) {
  static constexpr const char* kNames[] = {
      "bad_length", "bad_header", "unknown_attribute", "bad_source",   "unknown_comm_id",
      "wrong_peer", "wrong_qpn",  "wrong_state",       "backlog_full", "send_queue_full"};
  static_assert(std::size(kNames) == static_cast<size_t>(MadDrop::kCount));
  return drop < MadDrop::kCount ? kNames[static_cast<size_t>(drop)] : "unknown";
}

}  // namespace pollux::cm
