// Multicast listener discovery version 2, IPv6's counterpart of IGMP. Source: RFC 3810.
#ifndef POLLUX_STACK_WIRE_MLD_H_
#define POLLUX_STACK_WIRE_MLD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"
#include "stack/wire/igmp.h"

namespace pollux::wire {

// ff02::16, the destination of reports.
inline constexpr Gid kMldv2Routers{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16}};
inline constexpr size_t kMldv2ReportBytes = 28;  // of one group
// The hop-by-hop options header that precedes every MLD message: router alert (RFC 2711).
inline constexpr std::array<uint8_t, 8> kMldHopByHop = {58, 0, 5, 2, 0, 0, 1, 0};

// Parses an ICMPv6 message of exactly `length` bytes whose checksum is right. Returns nothing if it
// is not a query (of either version) or is too short.
std::optional<MembershipQuery> ParseMldQuery(const uint8_t* p, size_t length);
// Writes kMldv2ReportBytes at `p`: a report about one IPv6 group. The IPv6 header at `l3` must be
// complete.
void EmitMldReport(GroupRecord record, const Gid& group, const uint8_t* l3, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_MLD_H_
