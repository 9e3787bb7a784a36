#include "stack/wire/icrc.h"

#include <emmintrin.h>
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

// What is or-ed over the headers, from the IP header to the end of the BTH.
template <size_t kIpBytes>
using HeaderMask = std::array<uint8_t, kIpBytes + kUdpBytes + kBthBytes>;

template <size_t kIpBytes>
constexpr HeaderMask<kIpBytes> MaskUdpAndBth() {
  constexpr size_t kBthCongestion = 4;  // FECN, BECN and six reserved bits
  HeaderMask<kIpBytes> mask{};
  mask[kIpBytes + udp::kChecksum] = mask[kIpBytes + udp::kChecksum + 1] = 0xFF;
  mask[kIpBytes + kUdpBytes + kBthCongestion] = 0xFF;
  return mask;
}

constexpr HeaderMask<kIpv4Bytes> MaskIpv4() {
  auto mask = MaskUdpAndBth<kIpv4Bytes>();
  for (size_t at : {ipv4::kTos, ipv4::kTtl, ipv4::kChecksum, ipv4::kChecksum + 1}) mask[at] = 0xFF;
  return mask;
}

constexpr HeaderMask<kIpv6Bytes> MaskIpv6() {
  auto mask = MaskUdpAndBth<kIpv6Bytes>();
  mask[ipv6::kVersionClassFlow] = 0x0F;
  for (size_t i = 1; i < 4; ++i) mask[ipv6::kVersionClassFlow + i] = 0xFF;
  mask[ipv6::kHopLimit] = 0xFF;
  return mask;
}

constexpr auto kMaskIpv4 = MaskIpv4();
constexpr auto kMaskIpv6 = MaskIpv6();

void OrBlock(const uint8_t* in, const uint8_t* mask, uint8_t* out) {
  const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
  const __m128i ones = _mm_loadu_si128(reinterpret_cast<const __m128i*>(mask));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_or_si128(block, ones));
}

template <size_t kBytes>
uint32_t CrcOverMasked(const uint8_t* headers, const std::array<uint8_t, kBytes>& mask) {
  constexpr size_t kBlock = 16;
  static_assert(kBytes >= kBlock);
  alignas(kBlock) std::array<uint8_t, kBytes> masked;
  // In whole blocks, the overlapping tail first: each block that the CRC then loads lies in one
  // store, so that the processor forwards it.
  OrBlock(headers + kBytes - kBlock, mask.data() + kBytes - kBlock,
          masked.data() + kBytes - kBlock);
  for (size_t at = 0; at + kBlock <= kBytes; at += kBlock) {
    OrBlock(headers + at, mask.data() + at, masked.data() + at);
  }
  return crc32_gzip_refl(kIcrcStart, masked.data(), masked.size());
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
  return ip_version == 4 ? CrcOverMasked(l3, kMaskIpv4) : CrcOverMasked(l3, kMaskIpv6);
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
