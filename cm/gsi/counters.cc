#include "cm/gsi/counters.h"

#include <iterator>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace pollux::cm {

const char* MadDropName(MadDrop drop) {
  static constexpr const char* kNames[] = {
      "bad_length", "bad_header",     "unknown_attribute", "bad_source",   "unknown_comm_id",
      "wrong_peer", "wrong_qpn",      "wrong_state",       "backlog_full", "send_queue_full",
      "no_source",  "half_open_full", "handover_full"};
  static_assert(std::size(kNames) == static_cast<size_t>(MadDrop::kCount));
  return drop < MadDrop::kCount ? kNames[static_cast<size_t>(drop)] : "unknown";
}

void Counters::Visit(absl::FunctionRef<void(std::string_view, uint64_t)> visit) const {
  static constexpr struct {
    const char* group;
    uint64_t MessageCounters::*value;
  } kGroups[] = {{"cm_tx_msgs/", &MessageCounters::sent},
                 {"cm_tx_retries/", &MessageCounters::retries},
                 {"cm_rx_msgs/", &MessageCounters::received},
                 {"cm_rx_duplicates/", &MessageCounters::duplicates}};
  for (const auto& group : kGroups) {
    for (uint16_t attribute = kFirst; attribute <= kLast; ++attribute) {
      const auto message = static_cast<Attribute>(attribute);
      std::string name = group.group;
      for (const char c : AttributeName(message)) name += absl::ascii_tolower(c);
      visit(name, of(message).*group.value);
    }
  }
  for (size_t i = 0; i < drops.size(); ++i) {
    visit(absl::StrCat("cm_rx_drops/", MadDropName(static_cast<MadDrop>(i))), drops[i]);
  }
}

}  // namespace pollux::cm
