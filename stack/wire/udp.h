// The UDP header and its checksum. Source: RFC 768; over IPv6: RFC 8200 section 8.1.
#ifndef POLLUX_STACK_WIRE_UDP_H_
#define POLLUX_STACK_WIRE_UDP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pollux::wire {

inline constexpr size_t kUdpBytes = 8;

// Offsets from the first byte of the header.
namespace udp {
inline constexpr size_t kSourcePort = 0;
inline constexpr size_t kDestinationPort = 2;
inline constexpr size_t kLength = 4;
inline constexpr size_t kChecksum = 6;
}  // namespace udp
static_assert(udp::kChecksum + 2 == kUdpBytes);

struct UdpHeader {
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t length = 0;    // header and payload in bytes
  uint16_t checksum = 0;  // 0: none
  friend bool operator==(const UdpHeader&, const UdpHeader&) = default;
};

// Returns nothing if `length`, the IP payload length, is shorter than the header or differs from
// the header's length field. Does not verify the checksum.
std::optional<UdpHeader> ParseUdp(const uint8_t* p, size_t length);
// Writes kUdpBytes at `p`.
void EmitUdp(const UdpHeader& header, uint8_t* p);

// Computes the checksum of the datagram of `length` bytes at `udp`. The current value of the
// checksum field is included: set it to 0 to compute a new checksum. With a correct checksum in
// place the result is 0xFFFF, since a sum of 0 is sent as 0xFFFF. `l3` is the preceding header, of
// `ip_version` 4 or 6.
uint16_t UdpChecksum(const uint8_t* l3, uint8_t ip_version, const uint8_t* udp, size_t length);
inline bool UdpChecksumIsValid(const uint8_t* l3, uint8_t ip_version, const uint8_t* udp,
                               size_t length) {
  return UdpChecksum(l3, ip_version, udp, length) == 0xFFFF;
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_UDP_H_
