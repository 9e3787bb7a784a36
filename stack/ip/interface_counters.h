// What an interface did with the frames that are not RoCE.
#ifndef POLLUX_STACK_IP_INTERFACE_COUNTERS_H_
#define POLLUX_STACK_IP_INTERFACE_COUNTERS_H_

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace pollux::ip {

// Those dropped are counted in transport::Counters too, by reason.
struct InterfaceCounters {
  uint64_t arp_requests_sent = 0;
  uint64_t arp_replies_sent = 0;
  uint64_t arp_rcvd = 0;
  uint64_t arp_learned = 0;
  uint64_t arp_ignored = 0;    // malformed, about others, or an answer to no question
  uint64_t arp_conflicts = 0;  // another host uses our address
  // Neighbour discovery, as ARP.
  uint64_t nd_solicitations_sent = 0;
  uint64_t nd_advertisements_sent = 0;
  uint64_t nd_rcvd = 0;
  uint64_t nd_learned = 0;
  uint64_t nd_ignored = 0;
  uint64_t nd_conflicts = 0;
  // ICMP and ICMPv6.
  uint64_t echo_replies_sent = 0;
  uint64_t echo_ignored = 0;  // malformed, or not a request
  uint64_t echo_limited = 0;  // beyond the rate
  // IGMP and MLD.
  uint64_t membership_reports_sent = 0;
  uint64_t membership_queries_rcvd = 0;
  uint64_t left_to_kernel = 0;  // of an interface that the kernel keeps: all that is not RoCE

  // Calls `visit` for each with its member's name.
  void Visit(absl::FunctionRef<void(std::string_view name, uint64_t value)> visit) const;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_INTERFACE_COUNTERS_H_
