#include "stack/wire/icmpv6.h"

#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::wire {
namespace {

// RFC 8200 section 8.1: addresses, upper-layer length and protocol stand before the message.
uint16_t Checksum(const uint8_t* l3, const uint8_t* p, size_t length) {
  constexpr size_t kBothAddresses = 32;
  uint64_t sum = ChecksumAdd(0, l3 + ipv6::kSource, kBothAddresses);
  sum += length + kIpProtocolIcmpV6;
  return ChecksumFinish(ChecksumAdd(sum, p, length));
}

}  // namespace

bool Icmpv6ChecksumIsValid(const uint8_t* l3, const uint8_t* p, size_t length) {
  return length >= kIcmpv6HeaderBytes && Checksum(l3, p, length) == 0;
}

void CloseIcmpv6(uint8_t type, const uint8_t* l3, uint8_t* p, size_t length) {
  p[icmpv6::kType] = type;
  p[icmpv6::kCode] = 0;
  StoreBe16(p + icmpv6::kChecksum, 0);
  StoreBe16(p + icmpv6::kChecksum, Checksum(l3, p, length));
}

std::optional<IcmpEcho> ParseIcmpv6Echo(const uint8_t* p, size_t length) {
  if (length < kIcmpEchoBytes || p[icmpv6::kCode] != 0) return std::nullopt;
  IcmpEcho echo;
  echo.type = p[icmpv6::kType];
  if (echo.type != kIcmpv6EchoRequest && echo.type != kIcmpv6EchoReply) return std::nullopt;
  echo.identifier = LoadBe16(p + icmp::kIdentifier);
  echo.sequence = LoadBe16(p + icmp::kSequence);
  return echo;
}

void EmitIcmpv6Echo(const IcmpEcho& echo, const uint8_t* l3, uint8_t* p, size_t length) {
  StoreBe16(p + icmp::kIdentifier, echo.identifier);
  StoreBe16(p + icmp::kSequence, echo.sequence);
  CloseIcmpv6(echo.type, l3, p, length);
}

}  // namespace pollux::wire
