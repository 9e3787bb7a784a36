// Which neighbour a packet goes to first, on which VLAN, and which own address it comes from.
#ifndef POLLUX_STACK_IP_ROUTES_H_
#define POLLUX_STACK_IP_ROUTES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/address.h"
#include "stack/base/types.h"

namespace pollux::ip {

// What an interface reaches beyond the prefixes of its own addresses.
struct Route {
  Gid prefix;
  uint8_t prefix_length = 0;   // of its IP version; 0: the default route
  std::optional<Gid> gateway;  // none: on the link
  uint16_t vlan = kNoVlan;
  std::optional<Gid> source;  // the own address to send from; none: the best there is
  uint32_t metric = 0;        // of two routes to one prefix the lower is taken
  friend bool operator==(const Route&, const Route&) = default;
};

// The default route through `gateway`, on the VLAN of the address whose link it is on.
Route DefaultRoute(const Gid& gateway, const std::vector<InterfaceAddress>& addresses);

// One interface's routes. For the control path: look-ups walk the lists.
class Routes {
 public:
  static constexpr size_t kMaxRoutes = 1024;  // a storage host's; what is beyond is not taken

  struct Hop {
    Gid address;  // of the neighbour: the destination itself, or a gateway
    uint16_t vlan = kNoVlan;
    Gid source;  // one of the interface's own addresses on that VLAN
    friend bool operator==(const Hop&, const Hop&) = default;
  };

  Routes() = default;
  Routes(std::vector<InterfaceAddress> addresses, std::vector<Route> routes);

  // The way of the longest prefix, on `vlan` when it is given. InvalidArgument for what no packet
  // can go to (groups, unspecified, broadcast, this interface itself); NotFound without a route or
  // without an address to send from.
  absl::StatusOr<Hop> Find(const Gid& destination, std::optional<uint16_t> vlan = {}) const;
  // Whether `address` can be a host on this VLAN's link, other than this one.
  bool IsNeighbour(const Gid& address, uint16_t vlan) const;
  // The own address on `vlan` that packets to `destination` come from best: of its scope, then with
  // the longest common prefix (RFC 6724 section 5, rules 2 and 8).
  std::optional<Gid> Source(const Gid& destination, uint16_t vlan) const;

 private:
  bool IsOwn(const Gid& address) const;
  // In IPv4: all ones, or the last of a prefix. RFC 3021 leaves /31 and /32 none.
  bool IsBroadcast(const Gid& address) const;
  const Route* Longest(const Gid& destination, std::optional<uint16_t> vlan) const;

  std::vector<InterfaceAddress> addresses_;
  std::vector<Route> routes_;  // those of the addresses' own prefixes first
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_ROUTES_H_
