#include "stack/wire/ipv4.h"

#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"

namespace pollux::wire {
namespace {

constexpr uint8_t kVersionNoOptions = 0x45;
constexpr uint32_t kRouterAlert = 0x94040000;

}  // namespace

std::optional<Ipv4Header> ParseIpv4(const uint8_t* p, size_t length) {
  if (length < kIpv4Bytes || p[ipv4::kVersionIhl] >> 4 != 4) return std::nullopt;
  Ipv4Header header;
  header.header_bytes = static_cast<uint8_t>((p[ipv4::kVersionIhl] & 0x0F) * 4);
  header.total_length = LoadBe16(p + ipv4::kTotalLength);
  if (header.header_bytes < kIpv4Bytes || header.total_length < header.header_bytes ||
      header.total_length > length) {
    return std::nullopt;
  }
  if (InternetChecksum(p, header.header_bytes) != 0) return std::nullopt;
  header.tos = p[ipv4::kTos];
  header.identification = LoadBe16(p + ipv4::kIdentification);
  header.fragment = LoadBe16(p + ipv4::kFragment);
  header.ttl = p[ipv4::kTtl];
  header.protocol = p[ipv4::kProtocol];
  header.source = LoadBe32(p + ipv4::kSource);
  header.destination = LoadBe32(p + ipv4::kDestination);
  return header;
}

void EmitIpv4(const Ipv4Header& header, uint8_t* p) {
  p[ipv4::kVersionIhl] = kVersionNoOptions;
  p[ipv4::kTos] = header.tos;
  StoreBe16(p + ipv4::kTotalLength, header.total_length);
  StoreBe16(p + ipv4::kIdentification, header.identification);
  StoreBe16(p + ipv4::kFragment, header.fragment);
  p[ipv4::kTtl] = header.ttl;
  p[ipv4::kProtocol] = header.protocol;
  StoreBe32(p + ipv4::kSource, header.source);
  StoreBe32(p + ipv4::kDestination, header.destination);
  UpdateIpv4Checksum(p);
}

void EmitIpv4RouterAlert(const Ipv4Header& header, uint8_t* p) {
  EmitIpv4(header, p);
  p[ipv4::kVersionIhl] = kVersionNoOptions + 1;  // one word of options
  StoreBe32(p + kIpv4Bytes, kRouterAlert);
  StoreBe16(p + ipv4::kChecksum, 0);
  StoreBe16(p + ipv4::kChecksum, InternetChecksum(p, kIpv4RouterAlertBytes));
}

void UpdateIpv4Checksum(uint8_t* p) {
  StoreBe16(p + ipv4::kChecksum, 0);
  StoreBe16(p + ipv4::kChecksum, InternetChecksum(p, kIpv4Bytes));
}

}  // namespace pollux::wire
