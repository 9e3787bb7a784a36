#include "stack/wire/mld.h"

#include <algorithm>

#include "stack/base/byte_order.h"
#include "stack/wire/icmpv6.h"

namespace pollux::wire {
namespace {

constexpr size_t kMldQueryBytes = 24;  // of version 1; version 2 adds sources
constexpr size_t kMldMaxResponse = 4;
constexpr size_t kMldQueryGroup = 8;
constexpr size_t kMldRecordCount = 6;
constexpr size_t kMldRecord = 8;
constexpr size_t kMldRecordGroup = 12;

// RFC 3810 section 5.1.3: from 32768 on a twelve-bit mantissa and a three-bit exponent.
uint32_t FromFloat(uint16_t code) {
  if (code < 0x8000) return code;
  return ((code & 0x0FFFu) | 0x1000u) << (((code >> 12) & 0x07u) + 3);
}

}  // namespace

std::optional<MembershipQuery> ParseMldQuery(const uint8_t* p, size_t length) {
  if (length < kMldQueryBytes || p[icmpv6::kType] != kIcmpv6MldQuery || p[icmpv6::kCode] != 0) {
    return std::nullopt;
  }
  MembershipQuery query;
  std::copy_n(p + kMldQueryGroup, query.group.raw.size(), query.group.raw.begin());
  query.max_response_ms = FromFloat(LoadBe16(p + kMldMaxResponse));
  return query;
}

void EmitMldReport(GroupRecord record, const Gid& group, const uint8_t* l3, uint8_t* p) {
  std::fill_n(p, kMldv2ReportBytes, uint8_t{0});
  StoreBe16(p + kMldRecordCount, 1);
  p[kMldRecord] = static_cast<uint8_t>(record);
  std::copy(group.raw.begin(), group.raw.end(), p + kMldRecordGroup);
  CloseIcmpv6(kIcmpv6Mldv2Report, l3, p, kMldv2ReportBytes);
}

}  // namespace pollux::wire
