// The IPv6 header. Source: RFC 8200.
#ifndef POLLUX_STACK_WIRE_IPV6_H_
#define POLLUX_STACK_WIRE_IPV6_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::wire {

inline constexpr size_t kIpv6Bytes = 40;

// Offsets from the first byte of the header.
namespace ipv6 {
inline constexpr size_t kVersionClassFlow = 0;
inline constexpr size_t kPayloadLength = 4;
inline constexpr size_t kNextHeader = 6;
inline constexpr size_t kHopLimit = 7;
inline constexpr size_t kSource = 8;
inline constexpr size_t kDestination = 24;
}  // namespace ipv6
static_assert(ipv6::kDestination + 16 == kIpv6Bytes);

struct Ipv6Header {
  uint8_t traffic_class = 0;    // DSCP in the upper six bits, ECN in the lower two
  uint32_t flow_label = 0;      // 20 bits
  uint16_t payload_length = 0;  // bytes, without this header
  uint8_t next_header = 0;      // IpProtocol; extension headers are not parsed
  uint8_t hop_limit = 64;
  Gid source;
  Gid destination;
  friend bool operator==(const Ipv6Header&, const Ipv6Header&) = default;
};

// Returns nothing if `length` bytes hold less than the header and its payload length (more is
// allowed: Ethernet padding), or if the version is not 6.
std::optional<Ipv6Header> ParseIpv6(const uint8_t* p, size_t length);
// Writes kIpv6Bytes at `p`.
void EmitIpv6(const Ipv6Header& header, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_IPV6_H_
