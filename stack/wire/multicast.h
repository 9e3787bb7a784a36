// IP multicast groups and their Ethernet addresses. Source: RFC 1112 section 6.4 (IPv4), RFC 2464
// section 7 (IPv6), RFC 4291 section 2.7.
#ifndef POLLUX_STACK_WIRE_MULTICAST_H_
#define POLLUX_STACK_WIRE_MULTICAST_H_

#include "stack/base/types.h"

namespace pollux::wire {

inline constexpr Gid kAllNodesIpv6{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline constexpr Gid kAllHostsIpv4 = Gid::FromIpv4(0xE0000001);  // 224.0.0.1

// The destination of Ethernet frames that carry packets to `group`.
constexpr MacAddress MulticastMac(const Gid& group) {
  const auto& raw = group.raw;
  if (group.IsIpv4()) {
    return {0x01, 0x00, 0x5E, static_cast<uint8_t>(raw[13] & 0x7F), raw[14], raw[15]};
  }
  return {0x33, 0x33, raw[12], raw[13], raw[14], raw[15]};
}

// The group in which the owner of an IPv6 address receives neighbour solicitations.
constexpr Gid SolicitedNodeGroup(const Gid& address) {
  const auto& raw = address.raw;
  return {{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, raw[13], raw[14], raw[15]}};
}

// The IPv6 link-local address of an interface: fe80::/64 with the MAC as a modified EUI-64 (RFC
// 4291, appendix A).
constexpr Gid LinkLocalAddress(const MacAddress& mac) {
  return {{0xFE, 0x80, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(mac[0] ^ 0x02), mac[1], mac[2], 0xFF,
           0xFE, mac[3], mac[4], mac[5]}};
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_MULTICAST_H_
