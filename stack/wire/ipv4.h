// The IPv4 header. Source: RFC 791; DSCP and ECN: RFC 2474, RFC 3168.
#ifndef POLLUX_STACK_WIRE_IPV4_H_
#define POLLUX_STACK_WIRE_IPV4_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pollux::wire {

inline constexpr size_t kIpv4Bytes = 20;  // without options

enum IpProtocol : uint8_t {
  kIpProtocolHopByHop = 0,  // IPv6's options header
  kIpProtocolIcmp = 1,
  kIpProtocolIgmp = 2,
  kIpProtocolTcp = 6,
  kIpProtocolUdp = 17,
  kIpProtocolIcmpV6 = 58,
};

// The ECN field, for IPv4 and IPv6. Source: RFC 3168 section 5.
enum Ecn : uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };

// Offsets from the first byte of the header.
namespace ipv4 {
inline constexpr size_t kVersionIhl = 0;
inline constexpr size_t kTos = 1;
inline constexpr size_t kTotalLength = 2;
inline constexpr size_t kIdentification = 4;
inline constexpr size_t kFragment = 6;
inline constexpr size_t kTtl = 8;
inline constexpr size_t kProtocol = 9;
inline constexpr size_t kChecksum = 10;
inline constexpr size_t kSource = 12;
inline constexpr size_t kDestination = 16;
inline constexpr uint8_t kEcnMask = 0x03;  // of the TOS byte
}  // namespace ipv4
static_assert(ipv4::kDestination + 4 == kIpv4Bytes);

// The flags and the fragment offset share one 16-bit field.
inline constexpr uint16_t kIpv4DontFragment = 0x4000;
inline constexpr uint16_t kIpv4MoreFragments = 0x2000;
inline constexpr uint16_t kIpv4FragmentOffsetMask = 0x1FFF;  // unit: 8 bytes

struct Ipv4Header {
  uint8_t header_bytes = kIpv4Bytes;  // 20 to 60; options beyond 20 bytes are not decoded
  uint8_t tos = 0;                    // DSCP in the upper six bits, ECN in the lower two
  uint16_t total_length = 0;          // header and payload in bytes
  uint16_t identification = 0;
  uint16_t fragment = kIpv4DontFragment;  // flags and offset
  uint8_t ttl = 64;
  uint8_t protocol = 0;
  uint32_t source = 0;       // host order
  uint32_t destination = 0;  // host order

  bool IsFragment() const {
    return (fragment & (kIpv4MoreFragments | kIpv4FragmentOffsetMask)) != 0;
  }
  friend bool operator==(const Ipv4Header&, const Ipv4Header&) = default;
};

// Returns nothing if `length` bytes hold less than the header and its total length (more is
// allowed: Ethernet padding), if the version is not 4, or if the header checksum is wrong.
std::optional<Ipv4Header> ParseIpv4(const uint8_t* p, size_t length);
// Writes kIpv4Bytes at `p`, with the checksum; `header.header_bytes` must be kIpv4Bytes.
void EmitIpv4(const Ipv4Header& header, uint8_t* p);
// As EmitIpv4(), with the router alert option (RFC 2113), which asks routers to examine the packet.
// Writes kIpv4RouterAlertBytes, which `header.header_bytes` must equal.
inline constexpr size_t kIpv4RouterAlertBytes = kIpv4Bytes + 4;
void EmitIpv4RouterAlert(const Ipv4Header& header, uint8_t* p);
// Recomputes the checksum of the kIpv4Bytes at `p` after they were changed in place.
void UpdateIpv4Checksum(uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_IPV4_H_
