// ICMPv6: its checksum, and echo. Source: RFC 4443.
#ifndef POLLUX_STACK_WIRE_ICMPV6_H_
#define POLLUX_STACK_WIRE_ICMPV6_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/wire/icmp.h"

namespace pollux::wire {

inline constexpr size_t kIcmpv6HeaderBytes = 4;  // type, code, checksum

// Offsets from the first byte of the ICMPv6 header.
namespace icmpv6 {
inline constexpr size_t kType = 0;
inline constexpr size_t kCode = 1;
inline constexpr size_t kChecksum = 2;
inline constexpr size_t kBody = 4;
}  // namespace icmpv6
static_assert(icmpv6::kBody == kIcmpv6HeaderBytes);

enum Icmpv6Type : uint8_t {
  kIcmpv6EchoRequest = 128,
  kIcmpv6EchoReply = 129,
  kIcmpv6MldQuery = 130,
  kIcmpv6NeighbourSolicitation = 135,
  kIcmpv6NeighbourAdvertisement = 136,
  kIcmpv6Mldv2Report = 143,
};

// Whether the message of `length` bytes at `p` is at least as long as an ICMPv6 header and has the
// right checksum for the IPv6 header at `l3`.
bool Icmpv6ChecksumIsValid(const uint8_t* l3, const uint8_t* p, size_t length);
// Writes the type, code 0 and the checksum of all `length` bytes. The rest of the message, and the
// IPv6 header at `l3`, must already be in place.
void CloseIcmpv6(uint8_t type, const uint8_t* l3, uint8_t* p, size_t length);

// As ParseIcmpEcho() and EmitIcmpEcho(), with the types of ICMPv6. The parser does not verify the
// checksum: the caller does, once for all kinds of messages.
std::optional<IcmpEcho> ParseIcmpv6Echo(const uint8_t* p, size_t length);
void EmitIcmpv6Echo(const IcmpEcho& echo, const uint8_t* l3, uint8_t* p, size_t length);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ICMPV6_H_
