#include "stack/wire/udp.h"

#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::wire {

std::optional<UdpHeader> ParseUdp(const uint8_t* p, size_t length) {
  if (length < kUdpBytes) return std::nullopt;
  UdpHeader header;
  header.source_port = LoadBe16(p + udp::kSourcePort);
  header.destination_port = LoadBe16(p + udp::kDestinationPort);
  header.length = LoadBe16(p + udp::kLength);
  header.checksum = LoadBe16(p + udp::kChecksum);
  if (header.length != length) return std::nullopt;
  return header;
}

void EmitUdp(const UdpHeader& header, uint8_t* p) {
  StoreBe16(p + udp::kSourcePort, header.source_port);
  StoreBe16(p + udp::kDestinationPort, header.destination_port);
  StoreBe16(p + udp::kLength, header.length);
  StoreBe16(p + udp::kChecksum, header.checksum);
}

uint16_t UdpChecksum(const uint8_t* l3, uint8_t ip_version, const uint8_t* udp, size_t length) {
  // The pseudo header: both addresses (adjacent in either IP header), length, protocol.
  uint64_t sum = kIpProtocolUdp + length;
  sum = ip_version == 4 ? ChecksumAdd(sum, l3 + ipv4::kSource, 8)
                        : ChecksumAdd(sum, l3 + ipv6::kSource, 32);
  const uint16_t checksum = ChecksumFinish(ChecksumAdd(sum, udp, length));
  return checksum == 0 ? 0xFFFF : checksum;
}

}  // namespace pollux::wire
