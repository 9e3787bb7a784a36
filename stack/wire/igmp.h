// IGMP version 3: queries by routers, and the reports of a host that receives from all sources of a
// group. Source: RFC 3376.
#ifndef POLLUX_STACK_WIRE_IGMP_H_
#define POLLUX_STACK_WIRE_IGMP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::wire {

// The type of a group record in a membership report of IGMPv3 or MLDv2. Other types concern single
// sources.
enum class GroupRecord : uint8_t {
  kIsMember = 2,  // MODE_IS_EXCLUDE with no source: the answer to a query
  kLeave = 3,     // CHANGE_TO_INCLUDE_MODE with no source
  kJoin = 4,      // CHANGE_TO_EXCLUDE_MODE with no source
};

inline constexpr Gid kIgmpv3Routers = Gid::FromIpv4(0xE0000016);  // 224.0.0.22: gets reports
inline constexpr size_t kIgmpv3ReportBytes = 16;                  // of one group

struct MembershipQuery {
  Gid group;                     // 0.0.0.0 or :: for a query about all groups
  uint32_t max_response_ms = 0;  // a report is due within this time
  friend bool operator==(const MembershipQuery&, const MembershipQuery&) = default;
};

// Parses an IGMP message of exactly `length` bytes. Returns nothing if it is not a query (of any
// version) or its checksum is wrong. Ignores source lists, since a report for the group covers all
// its sources.
std::optional<MembershipQuery> ParseIgmpQuery(const uint8_t* p, size_t length);
// Writes kIgmpv3ReportBytes: a report about one IPv4 group.
void EmitIgmpReport(GroupRecord record, const Gid& group, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_IGMP_H_
