// Counts what an interface does with frames that are not RoCE.
#ifndef POLLUX_STACK_IP_INTERFACE_COUNTERS_H_
#define POLLUX_STACK_IP_INTERFACE_COUNTERS_H_

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace pollux::ip {

// Dropped frames are also counted in transport::Counters, by reason.
struct InterfaceCounters {
  uint64_t arp_requests_sent = 0;
  uint64_t arp_replies_sent = 0;
  uint64_t arp_rcvd = 0;
  uint64_t arp_learned = 0;
  uint64_t arp_ignored = 0;    // malformed, about other hosts, or an unrequested reply
  uint64_t arp_conflicts = 0;  // another host uses one of this host's addresses
  // Neighbour discovery; as for ARP.
  uint64_t nd_solicitations_sent = 0;
  uint64_t nd_advertisements_sent = 0;
  uint64_t nd_rcvd = 0;
  uint64_t nd_learned = 0;
  uint64_t nd_ignored = 0;
  uint64_t nd_conflicts = 0;
  // ICMP and ICMPv6.
  uint64_t echo_replies_sent = 0;
  uint64_t echo_ignored = 0;  // malformed, or not a request
  uint64_t echo_limited = 0;  // above the rate limit
  // IGMP and MLD.
  uint64_t membership_reports_sent = 0;
  uint64_t membership_queries_rcvd = 0;
  uint64_t left_to_kernel = 0;  // if the kernel keeps the interface: all that is not RoCE

  // Calls `visit` for each counter with the name of its member.
  void Visit(absl::FunctionRef<void(std::string_view name, uint64_t value)> visit) const;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_INTERFACE_COUNTERS_H_
