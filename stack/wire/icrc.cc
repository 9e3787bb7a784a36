#include "stack/wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "stack/base/byte_order.h"

namespace pollux::wire {
namespace {

constexpr size_t kUdpBytes = 8;
// A block that is still in the first-level cache when it is copied after its CRC.
constexpr size_t kCopyBlock = 4096;

}  // namespace

uint32_t Crc32(uint32_t crc, const uint8_t* data, size_t n) {
  return crc32_gzip_refl(crc, data, n);
}

uint32_t Crc32Copy(uint32_t crc, uint8_t* destination, const uint8_t* source, size_t n) {
  while (n > 0) {
    const size_t block = std::min(n, kCopyBlock);
    std::memcpy(destination, source, block);
    // Over the copy: what is sent is what was summed, even when the application writes meanwhile.
    crc = crc32_gzip_refl(crc, destination, block);
    destination += block;
    source += block;
    n -= block;
  }
  return crc;
}

uint32_t IcrcOverHeaders(const uint8_t* l3, uint8_t ip_version) {
  uint8_t masked[40 + kUdpBytes + kBthBytes];
  const size_t ip_bytes = ip_version == 4 ? 20 : 40;
  const size_t total = ip_bytes + kUdpBytes + kBthBytes;
  if (ip_version == 4) {
    std::memcpy(masked, l3, 20 + kUdpBytes + kBthBytes);
    masked[1] = 0xFF;  // DSCP, ECN
    masked[8] = 0xFF;  // TTL
    masked[10] = masked[11] = 0xFF;
  } else {
    std::memcpy(masked, l3, 40 + kUdpBytes + kBthBytes);
    masked[0] |= 0x0F;  // traffic class, flow label
    masked[1] = masked[2] = masked[3] = 0xFF;
    masked[7] = 0xFF;  // hop limit
  }
  masked[ip_bytes + 6] = masked[ip_bytes + 7] = 0xFF;  // UDP checksum
  masked[ip_bytes + kUdpBytes + 4] = 0xFF;             // FECN, BECN, reserved
  return crc32_gzip_refl(kIcrcStart, masked, total);
}

uint32_t ComputeIcrc(const RocePacket& packet) {
  return Crc32(IcrcOverHeaders(packet.frame + packet.l3_offset, packet.ip_version),
               packet.frame + packet.ext_offset, packet.icrc_offset - packet.ext_offset);
}

bool IcrcIsValid(const RocePacket& packet) {
  uint8_t expected[kIcrcBytes];
  EmitIcrc(ComputeIcrc(packet), expected);
  return std::memcmp(expected, packet.frame + packet.icrc_offset, kIcrcBytes) == 0;
}

void EmitIcrc(uint32_t icrc, uint8_t* p) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(p, &icrc, sizeof icrc);
}

}  // namespace pollux::wire
