#include "stack/wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"

namespace pollux::wire {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;  // reflected
// Below this ISA-L falls back to a byte at a time; measured, it wins from here on.
constexpr size_t kShortBytes = 16;
// Copied and summed while it is in the first-level cache.
constexpr size_t kCopyBlockBytes = 4096;

// kTables[k][b]: the CRC of byte b followed by k zero bytes.
using Tables = std::array<std::array<uint32_t, 256>, 4>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t CrcShort(uint32_t crc, const uint8_t* data, size_t n) {
  crc = ~crc;
  for (; n >= 4; data += 4, n -= 4) {
    uint32_t word;
    std::memcpy(&word, data, sizeof word);
    word ^= crc;
    crc = kTables[3][word & 0xFF] ^ kTables[2][word >> 8 & 0xFF] ^ kTables[1][word >> 16 & 0xFF] ^
          kTables[0][word >> 24];
  }
  for (; n > 0; ++data, --n) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xFF];
  return ~crc;
}

template <size_t kIpBytes>
uint32_t CrcOverMasked(std::array<uint8_t, kIpBytes + kUdpBytes + kBthBytes>& headers) {
  constexpr size_t kBthCongestion = 4;  // FECN, BECN and six reserved bits
  headers[kIpBytes + udp::kChecksum] = headers[kIpBytes + udp::kChecksum + 1] = 0xFF;
  headers[kIpBytes + kUdpBytes + kBthCongestion] = 0xFF;
  return crc32_gzip_refl(kIcrcStart, headers.data(), headers.size());
}

}  // namespace

uint32_t Crc32(uint32_t crc, const uint8_t* data, size_t n) {
  return n < kShortBytes ? CrcShort(crc, data, n) : crc32_gzip_refl(crc, data, n);
}

uint32_t Crc32Copy(uint32_t crc, uint8_t* destination, const uint8_t* source, size_t n) {
  while (n > 0) {
    const size_t block = std::min(n, kCopyBlockBytes);
    std::memcpy(destination, source, block);
    // Over the copy: the application may change the source meanwhile, and the sum has to fit what
    // leaves.
    crc = Crc32(crc, destination, block);
    destination += block;
    source += block;
    n -= block;
  }
  return crc;
}

uint32_t IcrcOverHeaders(const uint8_t* l3, uint8_t ip_version) {
  if (ip_version == 4) {
    std::array<uint8_t, kIpv4Bytes + kUdpBytes + kBthBytes> headers;
    std::memcpy(headers.data(), l3, headers.size());
    headers[ipv4::kTos] = 0xFF;
    headers[ipv4::kTtl] = 0xFF;
    headers[ipv4::kChecksum] = headers[ipv4::kChecksum + 1] = 0xFF;
    return CrcOverMasked<kIpv4Bytes>(headers);
  }
  std::array<uint8_t, kIpv6Bytes + kUdpBytes + kBthBytes> headers;
  std::memcpy(headers.data(), l3, headers.size());
  headers[ipv6::kVersionClassFlow] |= 0x0F;
  headers[ipv6::kVersionClassFlow + 1] = 0xFF;
  headers[ipv6::kVersionClassFlow + 2] = 0xFF;
  headers[ipv6::kVersionClassFlow + 3] = 0xFF;
  headers[ipv6::kHopLimit] = 0xFF;
  return CrcOverMasked<kIpv6Bytes>(headers);
}

uint32_t ComputeIcrc(const RocePacket& packet) {
  return Crc32(IcrcOverHeaders(packet.frame + packet.l3_offset, packet.ip_version),
               packet.frame + packet.ext_offset,
               static_cast<size_t>(packet.icrc_offset - packet.ext_offset));
}

bool IcrcIsValid(const RocePacket& packet) {
  std::array<uint8_t, kIcrcBytes> expected;
  EmitIcrc(ComputeIcrc(packet), expected.data());
  return std::memcmp(expected.data(), packet.frame + packet.icrc_offset, kIcrcBytes) == 0;
}

void EmitIcrc(uint32_t icrc, uint8_t* p) {
  for (size_t i = 0; i < kIcrcBytes; ++i) p[i] = static_cast<uint8_t>(icrc >> (8 * i));
}

}  // namespace pollux::wire
