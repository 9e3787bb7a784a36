// IGMP version 3: a query of the router's, and the reports of a host that wants all of a group's
// sources. Source: RFC 3376.
#ifndef POLLUX_STACK_WIRE_IGMP_H_
#define POLLUX_STACK_WIRE_IGMP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::wire {

// What a membership report, of IGMPv3 or MLDv2, says of a group. Other record types are about
// single sources.
enum class GroupRecord : uint8_t {
  kIsMember = 2,  // MODE_IS_EXCLUDE with no source: the answer to a query
  kLeave = 3,     // CHANGE_TO_INCLUDE_MODE with no source
  kJoin = 4,      // CHANGE_TO_EXCLUDE_MODE with no source
};

inline constexpr Gid kIgmpv3Routers = Gid::FromIpv4(0xE0000016);  // 224.0.0.22: where reports go
inline constexpr size_t kIgmpv3ReportBytes = 16;                  // of one group

struct MembershipQuery {
  Gid group;                     // IPv4: 0.0.0.0, IPv6: :: when about all groups
  uint32_t max_response_ms = 0;  // an answer is due by then
  friend bool operator==(const MembershipQuery&, const MembershipQuery&) = default;
};

// Parses an IGMP message of exactly `length` bytes. Nothing when it is no query (of any version),
// or its checksum is wrong. Source lists are not looked at: an answer for the group covers them.
std::optional<MembershipQuery> ParseIgmpQuery(const uint8_t* p, size_t length);
// Writes kIgmpv3ReportBytes: a report about one IPv4 group.
void EmitIgmpReport(GroupRecord record, const Gid& group, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_IGMP_H_
