// ICMP echo over IPv4. Source: RFC 792.
#ifndef POLLUX_STACK_WIRE_ICMP_H_
#define POLLUX_STACK_WIRE_ICMP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pollux::wire {

inline constexpr size_t kIcmpEchoBytes = 8;  // without the data that follows

// Offsets from the first byte of the ICMP header.
namespace icmp {
inline constexpr size_t kType = 0;
inline constexpr size_t kCode = 1;
inline constexpr size_t kChecksum = 2;
inline constexpr size_t kIdentifier = 4;
inline constexpr size_t kSequence = 6;
}  // namespace icmp
static_assert(icmp::kSequence + 2 == kIcmpEchoBytes);

enum IcmpType : uint8_t { kIcmpEchoReply = 0, kIcmpEchoRequest = 8 };

struct IcmpEcho {
  uint8_t type = kIcmpEchoRequest;  // or kIcmpEchoReply; ICMPv6: its own (icmpv6.h)
  uint16_t identifier = 0;
  uint16_t sequence = 0;
  friend bool operator==(const IcmpEcho&, const IcmpEcho&) = default;
};

// Parses an ICMP message of exactly `length` bytes, as given by the IP header. Returns nothing if
// it is too short, its checksum is wrong, or it is not an echo request or reply. The data is the
// bytes after kIcmpEchoBytes.
std::optional<IcmpEcho> ParseIcmpEcho(const uint8_t* p, size_t length);
// Writes the header in front of data that is already in place, with the checksum of all `length`
// bytes, header included.
void EmitIcmpEcho(const IcmpEcho& echo, uint8_t* p, size_t length);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ICMP_H_
