#include "stack/wire/icrc.h"

#include <immintrin.h>

#include <array>

#include "stack/base/byte_order.h"
#include "stack/wire/crc32.h"
#include "stack/wire/crc32_fold.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"

namespace pollux::wire {
namespace {

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

using fold::kBlock;
using fold::LoadBlock;

void OrBlock(const uint8_t* in, const uint8_t* mask, uint8_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_or_si128(LoadBlock(in), LoadBlock(mask)));
}

// The running CRC at the end of the BTH.
template <size_t kBytes>
uint32_t CrcOverMasked(CrcKernel kernel, const uint8_t* headers,
                       const std::array<uint8_t, kBytes>& mask) {
  static_assert(kBytes >= kBlock);
  alignas(kBlock) std::array<uint8_t, kBytes> masked;
  // In whole blocks, the overlapping tail first: each block that the CRC then loads lies in one
  // store, so that the processor forwards it.
  OrBlock(headers + kBytes - kBlock, mask.data() + kBytes - kBlock,
          masked.data() + kBytes - kBlock);
  for (size_t at = 0; at + kBlock <= kBytes; at += kBlock) {
    OrBlock(headers + at, mask.data() + at, masked.data() + at);
  }
  return Crc32By(kernel, kIcrcStart, masked.data(), masked.size());
}

constexpr size_t HeaderBytes(uint8_t ip_version) {
  return (ip_version == 4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + kBthBytes;
}

// Sixteen bytes that end `n` bytes into a packet are found `n` bytes into these: what of them
// belongs to it; the running CRC of the ones that stand for the LRH, under its first four bytes;
// and the header mask, behind which nothing is masked.
constexpr size_t kMaxHeaderBytes = kIpv6Bytes + kUdpBytes + kBthBytes;
struct Windows {
  std::array<uint8_t, 2 * kBlock> inside{};
  std::array<uint8_t, 2 * kBlock> start{};
  std::array<uint8_t, kBlock + kMaxHeaderBytes + kBlock> mask{};
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

// Folds the last `blocks` blocks before `end` into `sum`. Without a loop for those of short
// packets, in which it would be a third of the instructions.
__attribute__((POLLUX_TARGET_128, always_inline)) inline __m128i FoldFew(__m128i sum,
                                                                         const uint8_t* end,
                                                                         size_t blocks) {
  for (; blocks > 6; --blocks) sum = fold::Fold(sum, LoadBlock(end - blocks * kBlock));
  switch (blocks) {
    case 6:
      sum = fold::Fold(sum, LoadBlock(end - 6 * kBlock));
      [[fallthrough]];
    case 5:
      sum = fold::Fold(sum, LoadBlock(end - 5 * kBlock));
      [[fallthrough]];
    case 4:
      sum = fold::Fold(sum, LoadBlock(end - 4 * kBlock));
      [[fallthrough]];
    case 3:
      sum = fold::Fold(sum, LoadBlock(end - 3 * kBlock));
      [[fallthrough]];
    case 2:
      sum = fold::Fold(sum, LoadBlock(end - 2 * kBlock));
      [[fallthrough]];
    case 1:
      sum = fold::Fold(sum, LoadBlock(end - kBlock));
      break;
    default:
      break;
  }
  return sum;
}

// `fold_blocks`: what takes the blocks behind the headers; null: this does it itself.
template <size_t kHeaderBytes>
__attribute__((POLLUX_TARGET_128, always_inline)) inline uint32_t FoldPacket(
    const uint8_t* l3, size_t bytes, const Windows& windows, FoldFunction fold_blocks) {
  // The first block may begin before the packet: what lies there becomes zeros, which change no
  // sum. So all others are whole.
  size_t end = ((bytes - 1) & (kBlock - 1)) + 1;
  const uint8_t* const before = l3 - kBlock;
  __m128i sum = _mm_and_si128(LoadBlock(before + end), LoadBlock(windows.inside.data() + end));
  sum = _mm_or_si128(sum, LoadBlock(windows.mask.data() + end));
  sum = _mm_xor_si128(sum, LoadBlock(windows.start.data() + end));
  // The headers span this many blocks, or one more if the first block is partial.
  constexpr size_t kHeaderBlocks = (kHeaderBytes + kBlock - 1) / kBlock;
  const uint8_t* const mask = windows.mask.data();
  for (size_t i = 1; i < kHeaderBlocks; ++i) {
    const size_t at = end + i * kBlock;
    sum = fold::Fold(sum, _mm_or_si128(LoadBlock(before + at), LoadBlock(mask + at)));
  }
  end += kHeaderBlocks * kBlock;
  if (end < kHeaderBytes + kBlock && end <= bytes) {
    sum = fold::Fold(sum, _mm_or_si128(LoadBlock(before + end), LoadBlock(mask + end)));
    end += kBlock;
  }
  if (fold_blocks != nullptr) {
    if (end <= bytes) sum = fold_blocks(sum, before + end, (bytes - end) / kBlock + 1);
  } else {
    sum = FoldFew(sum, l3 + bytes, (bytes + kBlock - end) / kBlock);
  }
  return fold::Reduce(sum);
}

template <FoldFunction kFoldBlocks>
__attribute__((POLLUX_TARGET_128)) uint32_t IcrcByFolding(const uint8_t* l3, uint8_t ip_version,
                                                          size_t bytes) {
  return ip_version == 4 ? FoldPacket<kMaskIpv4.size()>(l3, bytes, kWindowsIpv4, kFoldBlocks)
                         : FoldPacket<kMaskIpv6.size()>(l3, bytes, kWindowsIpv6, kFoldBlocks);
}

// In two pieces, the masked headers and what follows them.
uint32_t IcrcInPieces(CrcKernel kernel, const uint8_t* l3, uint8_t ip_version, size_t bytes) {
  const uint32_t crc =
      ip_version == 4 ? CrcOverMasked(kernel, l3, kMaskIpv4) : CrcOverMasked(kernel, l3, kMaskIpv6);
  const size_t header_bytes = HeaderBytes(ip_version);
  return Crc32By(kernel, crc, l3 + header_bytes, bytes - header_bytes);
}

// Made at start-up.
const IcrcChoice kChoice =
    ChooseIcrc(Has(CrcKernel::kFold128), Has(CrcKernel::kFold256), Has(CrcKernel::kFold512));

}  // namespace

CrcKernel IcrcKernel(size_t bytes) {
  if (bytes % 4 != 0) return CrcKernel::kIsal;
  return kChoice.For(bytes);
}

// Out of line, so that Icrc() has nothing to prepare for most packets.
[[gnu::noinline]] uint32_t IcrcBy(CrcKernel kernel, const uint8_t* l3, uint8_t ip_version,
                                  size_t bytes) {
  if (bytes % 4 == 0) [[likely]] {
    switch (kernel) {
      case CrcKernel::kFold128:
        return IcrcByFolding<nullptr>(l3, ip_version, bytes);
      case CrcKernel::kFold256:
        return IcrcByFolding<FoldBlocks256>(l3, ip_version, bytes);
      case CrcKernel::kFold512:
        return IcrcByFolding<FoldBlocks512>(l3, ip_version, bytes);
      default:
        break;
    }
  }
  return IcrcInPieces(kernel, l3, ip_version, bytes);
}

uint32_t Icrc(const uint8_t* l3, uint8_t ip_version, size_t bytes) {
  if (IcrcKernel(bytes) == CrcKernel::kFold128) [[likely]] {
    return IcrcByFolding<nullptr>(l3, ip_version, bytes);
  }
  return IcrcBy(IcrcKernel(bytes), l3, ip_version, bytes);
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
