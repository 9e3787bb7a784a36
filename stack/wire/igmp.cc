#include "stack/wire/igmp.h"

#include <algorithm>

#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"

namespace pollux::wire {
namespace {

constexpr uint8_t kQuery = 0x11;
constexpr uint8_t kReportV3 = 0x22;
constexpr size_t kIgmpQueryBytes = 8;  // of versions 1 and 2; version 3 adds sources
constexpr size_t kIgmpMaxResponse = 1;
constexpr size_t kChecksum = 2;
constexpr size_t kIgmpQueryGroup = 4;
constexpr size_t kIgmpRecordCount = 6;
constexpr size_t kIgmpRecord = 8;
constexpr size_t kIgmpRecordGroup = 12;
constexpr uint32_t kUnitMs = 100;
constexpr uint32_t kVersion1ResponseMs = 10'000;  // RFC 3376 section 7.2.1: the field is zero there

// RFC 3376 section 4.1.1: from 128 on a four-bit mantissa and a three-bit exponent.
uint32_t FromFloat(uint8_t code) {
  if (code < 128) return code;
  return ((code & 0x0Fu) | 0x10u) << (((code >> 4) & 0x07u) + 3);
}

}  // namespace

std::optional<MembershipQuery> ParseIgmpQuery(const uint8_t* p, size_t length) {
  if (length < kIgmpQueryBytes || p[0] != kQuery || InternetChecksum(p, length) != 0) {
    return std::nullopt;
  }
  const uint8_t code = p[kIgmpMaxResponse];
  return MembershipQuery{
      .group = Gid::FromIpv4(LoadBe32(p + kIgmpQueryGroup)),
      .max_response_ms = code == 0 ? kVersion1ResponseMs : FromFloat(code) * kUnitMs};
}

void EmitIgmpReport(GroupRecord record, const Gid& group, uint8_t* p) {
  std::fill_n(p, kIgmpv3ReportBytes, uint8_t{0});
  p[0] = kReportV3;
  StoreBe16(p + kIgmpRecordCount, 1);
  p[kIgmpRecord] = static_cast<uint8_t>(record);
  StoreBe32(p + kIgmpRecordGroup, group.Ipv4());
  StoreBe16(p + kChecksum, InternetChecksum(p, kIgmpv3ReportBytes));
}

}  // namespace pollux::wire
