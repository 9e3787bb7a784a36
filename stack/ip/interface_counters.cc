#include "stack/ip/interface_counters.h"

#include <iterator>

namespace pollux::ip {

void InterfaceCounters::Visit(absl::FunctionRef<void(std::string_view, uint64_t)> visit) const {
  static constexpr struct {
    const char* name;
    uint64_t InterfaceCounters::*value;
  } kCounters[] = {
      {"arp_requests_sent", &InterfaceCounters::arp_requests_sent},
      {"arp_replies_sent", &InterfaceCounters::arp_replies_sent},
      {"arp_rcvd", &InterfaceCounters::arp_rcvd},
      {"arp_learned", &InterfaceCounters::arp_learned},
      {"arp_ignored", &InterfaceCounters::arp_ignored},
      {"arp_conflicts", &InterfaceCounters::arp_conflicts},
      {"nd_solicitations_sent", &InterfaceCounters::nd_solicitations_sent},
      {"nd_advertisements_sent", &InterfaceCounters::nd_advertisements_sent},
      {"nd_rcvd", &InterfaceCounters::nd_rcvd},
      {"nd_learned", &InterfaceCounters::nd_learned},
      {"nd_ignored", &InterfaceCounters::nd_ignored},
      {"nd_conflicts", &InterfaceCounters::nd_conflicts},
      {"echo_replies_sent", &InterfaceCounters::echo_replies_sent},
      {"echo_ignored", &InterfaceCounters::echo_ignored},
      {"echo_limited", &InterfaceCounters::echo_limited},
      {"membership_reports_sent", &InterfaceCounters::membership_reports_sent},
      {"membership_queries_rcvd", &InterfaceCounters::membership_queries_rcvd},
      {"left_to_kernel", &InterfaceCounters::left_to_kernel},
  };
  // Every member, or a new one would never be seen.
  static_assert(sizeof(InterfaceCounters) == sizeof(uint64_t) * std::size(kCounters));
  for (const auto& counter : kCounters) visit(counter.name, this->*counter.value);
}

}  // namespace pollux::ip
