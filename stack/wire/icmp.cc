#include "stack/wire/icmp.h"

#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"

namespace pollux::wire {

std::optional<IcmpEcho> ParseIcmpEcho(const uint8_t* p, size_t length) {
  if (length < kIcmpEchoBytes || p[icmp::kCode] != 0) return std::nullopt;
  IcmpEcho echo;
  echo.type = p[icmp::kType];
  if (echo.type != kIcmpEchoRequest && echo.type != kIcmpEchoReply) return std::nullopt;
  if (InternetChecksum(p, length) != 0) return std::nullopt;
  echo.identifier = LoadBe16(p + icmp::kIdentifier);
  echo.sequence = LoadBe16(p + icmp::kSequence);
  return echo;
}

void EmitIcmpEcho(const IcmpEcho& echo, uint8_t* p, size_t length) {
  p[icmp::kType] = echo.type;
  p[icmp::kCode] = 0;
  StoreBe16(p + icmp::kChecksum, 0);
  StoreBe16(p + icmp::kIdentifier, echo.identifier);
  StoreBe16(p + icmp::kSequence, echo.sequence);
  StoreBe16(p + icmp::kChecksum, InternetChecksum(p, length));
}

}  // namespace pollux::wire
