// Which neighbour a packet goes to first: the destination itself on the link, else the gateway.
#ifndef POLLUX_STACK_NET_ROUTES_H_
#define POLLUX_STACK_NET_ROUTES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "stack/base/types.h"

namespace pollux::net {

// Dotted form of an IPv4 address in host order; of any address in GID form.
std::string FormatIpv4(uint32_t address);
std::string FormatAddress(const Gid& address);

// The routes of one IPv4 interface: its prefix, and a default gateway or none. Immutable.
class Routes {
 public:
  Routes(uint32_t address, uint8_t prefix_length, std::optional<uint32_t> gateway);

  // InvalidArgument for what no packet can go to (no IPv4 address, unspecified, multicast,
  // broadcast, this interface itself); NotFound when off the link without a gateway.
  absl::StatusOr<Gid> NextHop(const Gid& destination) const;
  // Whether `address` can be a host on this link, other than this one.
  bool IsNeighbour(uint32_t address) const;

 private:
  bool OnLink(uint32_t address) const { return ((address ^ address_) & mask_) == 0; }
  // All ones, or the prefix's own: RFC 3021 leaves /31 and /32 none.
  bool IsBroadcast(uint32_t address) const;

  uint32_t address_;
  uint32_t mask_;
  std::optional<uint32_t> gateway_;
};

}  // namespace pollux::net

#endif  // POLLUX_STACK_NET_ROUTES_H_
