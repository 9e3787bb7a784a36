#include "stack/wire/icrc.h"

#include <immintrin.h>
#include <isa-l/crc.h>

#include <array>
#include <cstring>

#include "stack/base/byte_order.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"

namespace pollux::wire {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;  // reflected
// Below this ISA-L falls back to a byte at a time; measured, it wins from here on.
constexpr size_t kShortBytes = 16;
// Up to here one pass of 128 bits at a time wins over ISA-L behind the headers, measured.
constexpr size_t kOnePassBytes = 320;

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

const bool kHasAvx = __builtin_cpu_supports("avx");

__attribute__((target("avx"), noinline)) void ClearUpperHalves() { _mm256_zeroupper(); }

// ISA-L leaves the upper halves of the vector registers in use: each change between its
// instructions and the older ones that the rest is compiled to then costs 100 ns, measured.
uint32_t CrcByIsal(uint32_t crc, const uint8_t* data, size_t n) {
  crc = crc32_gzip_refl(crc, data, n);
  if (kHasAvx) ClearUpperHalves();
  return crc;
}

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

constexpr size_t kBlock = 16;

inline __m128i LoadBlock(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

void OrBlock(const uint8_t* in, const uint8_t* mask, uint8_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_or_si128(LoadBlock(in), LoadBlock(mask)));
}

template <size_t kBytes>
uint32_t CrcOverMasked(const uint8_t* headers, const std::array<uint8_t, kBytes>& mask) {
  static_assert(kBytes >= kBlock);
  alignas(kBlock) std::array<uint8_t, kBytes> masked;
  // In whole blocks, the overlapping tail first: each block that the CRC then loads lies in one
  // store, so that the processor forwards it.
  OrBlock(headers + kBytes - kBlock, mask.data() + kBytes - kBlock,
          masked.data() + kBytes - kBlock);
  for (size_t at = 0; at + kBlock <= kBytes; at += kBlock) {
    OrBlock(headers + at, mask.data() + at, masked.data() + at);
  }
  return CrcByIsal(kIcrcStart, masked.data(), masked.size());
}

constexpr size_t HeaderBytes(uint8_t ip_version) {
  return (ip_version == 4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + kBthBytes;
}

// ---- Carry-less multiplication. All values are reflected: the lowest bit of a register is the
// coefficient of its highest power.

// x^power modulo the polynomial as a factor: the product of two registers of 64 bits comes out
// shifted by one bit and by the 31 that 32 bits have to spare, so that a register times this factor
// stands for the register times x^power * x^32.
constexpr uint64_t Factor(unsigned power) {
  uint32_t remainder = 0x80000000;  // x^0
  for (; power > 0; --power) {
    remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kPolynomial : 0);
  }
  return uint64_t{remainder} << 1;
}

// The polynomial with its highest power, and what it must be multiplied by to become 1 modulo
// x^32 counted from the lowest bit.
constexpr uint64_t kWholePolynomial = uint64_t{kPolynomial} << 1 | 1;
constexpr uint64_t InverseOfPolynomial() {
  uint64_t inverse = 0;
  uint64_t rest = 1;
  for (int bit = 0; bit < 32; ++bit) {
    if ((rest >> bit & 1) == 0) continue;
    inverse |= uint64_t{1} << bit;
    rest ^= kWholePolynomial << bit;
  }
  return inverse;
}

// Sixteen bytes that end `n` bytes into a packet are found `n` bytes into these: what of them
// belongs to it; the running CRC of the ones that stand for the LRH, under its first four bytes;
// and the header mask, behind which nothing is masked.
constexpr size_t kMostHeaderBytes = kIpv6Bytes + kUdpBytes + kBthBytes;
struct Windows {
  std::array<uint8_t, 2 * kBlock> inside{};
  std::array<uint8_t, 2 * kBlock> start{};
  std::array<uint8_t, kBlock + kMostHeaderBytes + kBlock> mask{};
};

template <size_t kBytes>
constexpr Windows MakeWindows(const std::array<uint8_t, kBytes>& header_mask) {
  Windows windows;
  for (size_t i = 0; i < kBlock; ++i) windows.inside[kBlock + i] = 0xFF;
  for (size_t i = 0; i < 4; ++i) {
    windows.start[kBlock + i] = static_cast<uint8_t>(~kIcrcStart >> (8 * i));
  }
  for (size_t i = 0; i < kBytes; ++i) windows.mask[kBlock + i] = header_mask[i];
  return windows;
}

constexpr Windows kWindowsIpv4 = MakeWindows(kMaskIpv4);
constexpr Windows kWindowsIpv6 = MakeWindows(kMaskIpv6);

const bool kHasPclmul = __builtin_cpu_supports("pclmul");

// The sum moved on by a block, to which the next block is added.
__attribute__((target("pclmul"), always_inline)) inline __m128i Fold(__m128i sum, __m128i next) {
  const __m128i factors = _mm_set_epi64x(static_cast<int64_t>(Factor(128 - 32)),
                                         static_cast<int64_t>(Factor(128 + 32)));
  const __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(sum, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// The CRC of a message whose blocks were folded into `sum`, complemented.
__attribute__((target("pclmul"), always_inline)) inline uint32_t Reduce(__m128i sum) {
  const __m128i factors =
      _mm_set_epi64x(static_cast<int64_t>(Factor(96)), static_cast<int64_t>(Factor(64)));
  const __m128i last = _mm_set_epi64x(static_cast<int64_t>(kWholePolynomial),
                                      static_cast<int64_t>(InverseOfPolynomial()));
  const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
  // From 128 bits to 96, and to 64.
  sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, factors, 0x10), _mm_srli_si128(sum, 8));
  sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, low_word), factors, 0x00),
                      _mm_srli_si128(sum, 4));
  // A multiple of the polynomial clears the low word.
  const __m128i multiple = _mm_and_si128(_mm_clmulepi64_si128(sum, last, 0x00), low_word);
  sum = _mm_xor_si128(sum, _mm_clmulepi64_si128(multiple, last, 0x10));
  return ~static_cast<uint32_t>(_mm_cvtsi128_si64(sum) >> 32);
}

template <size_t kHeaderBytes>
__attribute__((target("pclmul"))) uint32_t FoldPacket(const uint8_t* l3, size_t bytes,
                                                      const Windows& windows) {
  // The first block may begin before the packet: what lies there becomes zeros, which change no
  // sum. So all others are whole.
  size_t end = ((bytes - 1) & (kBlock - 1)) + 1;
  const uint8_t* const before = l3 - kBlock;
  __m128i sum = _mm_and_si128(LoadBlock(before + end), LoadBlock(windows.inside.data() + end));
  sum = _mm_or_si128(sum, LoadBlock(windows.mask.data() + end));
  sum = _mm_xor_si128(sum, LoadBlock(windows.start.data() + end));
  for (end += kBlock; end < kHeaderBytes + kBlock && end <= bytes; end += kBlock) {
    sum = Fold(sum, _mm_or_si128(LoadBlock(before + end), LoadBlock(windows.mask.data() + end)));
  }
  for (; end <= bytes; end += kBlock) sum = Fold(sum, LoadBlock(before + end));
  return Reduce(sum);
}

}  // namespace

uint32_t Crc32(uint32_t crc, const uint8_t* data, size_t n) {
  return n < kShortBytes ? CrcShort(crc, data, n) : CrcByIsal(crc, data, n);
}

bool HasPclmul() { return kHasPclmul; }

uint32_t IcrcByPclmul(const uint8_t* l3, uint8_t ip_version, size_t bytes) {
  return ip_version == 4 ? FoldPacket<kMaskIpv4.size()>(l3, bytes, kWindowsIpv4)
                         : FoldPacket<kMaskIpv6.size()>(l3, bytes, kWindowsIpv6);
}

uint32_t IcrcByIsal(const uint8_t* l3, uint8_t ip_version, size_t bytes) {
  const uint32_t crc =
      ip_version == 4 ? CrcOverMasked(l3, kMaskIpv4) : CrcOverMasked(l3, kMaskIpv6);
  const size_t header_bytes = HeaderBytes(ip_version);
  return Crc32(crc, l3 + header_bytes, bytes - header_bytes);
}

uint32_t IcrcByTable(const uint8_t* l3, uint8_t ip_version, size_t bytes) {
  const size_t header_bytes = HeaderBytes(ip_version);
  const uint8_t* mask = ip_version == 4 ? kMaskIpv4.data() : kMaskIpv6.data();
  uint32_t crc = kIcrcStart;
  for (size_t i = 0; i < header_bytes; ++i) {
    const uint8_t masked = l3[i] | mask[i];
    crc = CrcShort(crc, &masked, 1);
  }
  return CrcShort(crc, l3 + header_bytes, bytes - header_bytes);
}

uint32_t Icrc(const uint8_t* l3, uint8_t ip_version, size_t bytes) {
  if (bytes <= kOnePassBytes && bytes % 4 == 0 && kHasPclmul) [[likely]]
    return IcrcByPclmul(l3, ip_version, bytes);
  return IcrcByIsal(l3, ip_version, bytes);
}

uint32_t ComputeIcrc(const RocePacket& packet) {
  return Icrc(packet.frame + packet.l3_offset, packet.ip_version,
              static_cast<size_t>(packet.icrc_offset - packet.l3_offset));
}

bool IcrcIsValid(const RocePacket& packet) {
  return ComputeIcrc(packet) == __builtin_bswap32(LoadBe32(packet.frame + packet.icrc_offset));
}

void EmitIcrc(uint32_t icrc, uint8_t* p) { StoreBe32(p, __builtin_bswap32(icrc)); }

}  // namespace pollux::wire
