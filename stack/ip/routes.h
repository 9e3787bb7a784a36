// Selects the next hop, VLAN and source address of a packet.
#ifndef POLLUX_STACK_IP_ROUTES_H_
#define POLLUX_STACK_IP_ROUTES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/address.h"
#include "stack/base/types.h"

namespace pollux::ip {

// A route to destinations beyond the prefixes of the interface's own addresses.
struct Route {
  Gid prefix;
  uint8_t prefix_length = 0;   // within its IP version; 0: the default route
  std::optional<Gid> gateway;  // none: on the link
  uint16_t vlan = kNoVlan;
  std::optional<Gid> source;  // the source address to use; none: the best one
  uint32_t metric = 0;        // of two routes to one prefix the lower metric wins
  bool refuses = false;       // no packet may go there: unreachable, prohibit, blackhole
  friend bool operator==(const Route&, const Route&) = default;
};

// The default routes via `gateway`. One, on the VLAN of the address whose prefix contains it; if
// there is none, on that of the first address of the gateway's IP version. A link-local gateway has
// one on each VLAN on which the interface has an address of that version. In both cases link-local
// addresses count only if there are no others.
std::vector<Route> DefaultRoutes(const Gid& gateway,
                                 const std::vector<InterfaceAddress>& addresses);

// One interface's routes. For the control path: look-ups search lists linearly.
class Routes {
 public:
  static constexpr size_t kMaxRoutes = 1024;  // enough for a storage host; more are ignored

  struct Hop {
    Gid address;  // the neighbour's: the destination itself, or a gateway
    uint16_t vlan = kNoVlan;
    Gid source;  // one of the interface's own addresses on that VLAN
    friend bool operator==(const Hop&, const Hop&) = default;
  };

  Routes() = default;
  Routes(std::vector<InterfaceAddress> addresses, std::vector<Route> routes);

  // Returns the route with the longest prefix, on `vlan` if given. Errors: InvalidArgument if no
  // packet can be sent to `destination` (multicast, unspecified, broadcast, this interface itself);
  // NotFound if there is no route or no source address.
  absl::StatusOr<Hop> Find(const Gid& destination, std::optional<uint16_t> vlan = {}) const;
  // Whether `address` can be another host on this VLAN's link.
  bool IsNeighbour(const Gid& address, uint16_t vlan) const;
  // The interface's best source address on `vlan` for packets to `destination`: one of the same
  // scope, then one that is not deprecated, then one with the destination on its link, then the one
  // with the longest common prefix (RFC 6724 section 5, rules 2, 3, 5.5 and 8). Of equal ones the
  // first.
  std::optional<Gid> Source(const Gid& destination, uint16_t vlan) const;

 private:
  // The same for packets that go by way of `next_hop`: prefers an address with that on its link.
  std::optional<Gid> Source(const Gid& destination, const Gid& next_hop, uint16_t vlan) const;
  bool IsOwn(const Gid& address) const;
  // For IPv4: all ones, or the last address of a prefix. In a /31 or /32 there is none (RFC 3021).
  bool IsBroadcast(const Gid& address) const;
  const Route* Longest(const Gid& destination, std::optional<uint16_t> vlan) const;

  std::vector<InterfaceAddress> addresses_;
  std::vector<Route> routes_;  // those for the addresses' own prefixes last
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_ROUTES_H_
