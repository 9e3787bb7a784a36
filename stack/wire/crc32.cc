#include "stack/wire/crc32.h"

#include <immintrin.h>
#include <isa-l/crc.h>

#include <array>
#include <cstring>

#include "stack/wire/crc32_fold.h"

namespace pollux::wire {
namespace {

using fold::kBlock;

// Below this ISA-L falls back to a byte at a time; measured, it wins from here on.
constexpr size_t kShortBytes = 16;

// kTables[k][b]: the CRC of byte b followed by k zero bytes.
using Tables = std::array<std::array<uint32_t, 256>, 4>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? fold::kPolynomial : 0);
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

uint32_t CrcByTable(uint32_t crc, const uint8_t* data, size_t n) {
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

const bool kHasAvx = __builtin_cpu_supports("avx");

__attribute__((target("avx"), noinline)) void ClearUpperHalves() { _mm256_zeroupper(); }

// ISA-L leaves the upper halves of the vector registers in use: each change between its
// instructions and the older ones that the rest is compiled to then costs 100 ns, measured.
uint32_t CrcByIsal(uint32_t crc, const uint8_t* data, size_t n) {
  crc = crc32_gzip_refl(crc, data, n);
  if (kHasAvx) ClearUpperHalves();
  return crc;
}

__attribute__((POLLUX_TARGET_128)) uint32_t CrcByFolding(FoldFunction fold_blocks, uint32_t crc,
                                                         const uint8_t* data, size_t n) {
  if (n < kBlock) return CrcByTable(crc, data, n);
  __m128i sum = _mm_xor_si128(fold::LoadBlock(data), _mm_cvtsi32_si128(static_cast<int32_t>(~crc)));
  sum = fold_blocks(sum, data + kBlock, n / kBlock - 1);
  return CrcByTable(fold::Reduce(sum), data + n / kBlock * kBlock, n % kBlock);
}

// ---- 256 bits at a time, four sums side by side.

#define POLLUX_TARGET_256 target("avx2,vpclmulqdq,pclmul")

__attribute__((POLLUX_TARGET_256, always_inline)) inline __m256i Load256(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

template <unsigned kBits>
__attribute__((POLLUX_TARGET_256, always_inline)) inline __m256i Fold256(__m256i sum,
                                                                         __m256i next) {
  constexpr fold::Factors kBy(kBits);
  const __m256i factors = _mm256_set_epi64x(kBy.high, kBy.low, kBy.high, kBy.low);
  const __m256i low = _mm256_clmulepi64_epi128(sum, factors, 0x00);
  const __m256i high = _mm256_clmulepi64_epi128(sum, factors, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

// ---- 512 bits at a time, four sums side by side.

#define POLLUX_TARGET_512 target("avx512f,vpclmulqdq,pclmul")

__attribute__((POLLUX_TARGET_512, always_inline)) inline __m512i Xor3(__m512i a, __m512i b,
                                                                      __m512i c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

template <unsigned kBits>
__attribute__((POLLUX_TARGET_512, always_inline)) inline __m512i Fold512(__m512i sum,
                                                                         __m512i next) {
  constexpr fold::Factors kBy(kBits);
  const __m512i factors =
      _mm512_set_epi64(kBy.high, kBy.low, kBy.high, kBy.low, kBy.high, kBy.low, kBy.high, kBy.low);
  return Xor3(_mm512_clmulepi64_epi128(sum, factors, 0x00),
              _mm512_clmulepi64_epi128(sum, factors, 0x11), next);
}

// The four lanes of a sum, each moved on to where the last one is.
__attribute__((POLLUX_TARGET_512, always_inline)) inline __m128i Lanes512(__m512i sum) {
  constexpr fold::Factors kBy1(128), kBy2(256), kBy3(384);
  const __m512i factors =
      _mm512_set_epi64(0, 0, kBy1.high, kBy1.low, kBy2.high, kBy2.low, kBy3.high, kBy3.low);
  constexpr __mmask8 kLastLane = 0xC0;
  const __m512i moved =
      Xor3(_mm512_clmulepi64_epi128(sum, factors, 0x00),
           _mm512_clmulepi64_epi128(sum, factors, 0x11), _mm512_maskz_mov_epi64(kLastLane, sum));
  // The forms that name what they keep: gcc 12 takes the others for uses of what is not set.
  constexpr __mmask8 kAll = 0xF;
  const __m256i halves = _mm256_xor_si256(_mm512_maskz_extracti64x4_epi64(kAll, moved, 0),
                                          _mm512_maskz_extracti64x4_epi64(kAll, moved, 1));
  return _mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

}  // namespace

__attribute__((POLLUX_TARGET_128)) __m128i FoldBlocks128(__m128i sum, const uint8_t* data,
                                                         size_t blocks) {
  for (; blocks > 0; --blocks, data += kBlock) sum = fold::Fold(sum, fold::LoadBlock(data));
  return sum;
}

__attribute__((POLLUX_TARGET_256)) __m128i FoldBlocks256(__m128i sum, const uint8_t* data,
                                                         size_t blocks) {
  constexpr size_t kBytes = sizeof(__m256i);
  // The sum is the last lane of a vector, or the one before a block.
  __m256i first = _mm256_inserti128_si256(_mm256_setzero_si256(), sum, 1);
  if (blocks % 2 != 0) {
    first = _mm256_set_m128i(fold::LoadBlock(data), sum);
    data += kBlock;
  }
  size_t vectors = blocks / 2;
  // Zeros before it change nothing: it is whichever of the four leaves whole rounds behind them.
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = first;
  for (size_t i = vectors % 4; i > 0; --i, data += kBytes) {
    a = b, b = c, c = d;
    d = Load256(data);
  }
  for (vectors /= 4; vectors > 0; --vectors, data += 4 * kBytes) {
    a = Fold256<1024>(a, Load256(data));
    b = Fold256<1024>(b, Load256(data + kBytes));
    c = Fold256<1024>(c, Load256(data + 2 * kBytes));
    d = Fold256<1024>(d, Load256(data + 3 * kBytes));
  }
  d = _mm256_xor_si256(Fold256<768>(a, Fold256<512>(b, d)),
                       Fold256<256>(c, _mm256_setzero_si256()));
  const __m128i last = fold::Fold(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
  _mm256_zeroupper();
  return last;
}

__attribute__((POLLUX_TARGET_512)) __m128i FoldBlocks512(__m128i sum, const uint8_t* data,
                                                         size_t blocks) {
  constexpr size_t kBytes = sizeof(__m512i);
  // The sum is the lane before the blocks that fill its vector; what lies before it is not read.
  const unsigned lane = 3 - blocks % 4;
  const auto lanes_behind = static_cast<__mmask8>(0xFFu << (2 * (lane + 1)));
  const auto own_words = static_cast<__mmask16>(0xFu << (4 * lane));
  const __m512i first =
      _mm512_or_si512(_mm512_maskz_broadcast_i32x4(own_words, sum),
                      _mm512_maskz_loadu_epi64(lanes_behind, data - kBlock * (lane + 1)));
  data += kBlock * (blocks % 4);
  size_t vectors = blocks / 4;
  // Zeros before it change nothing: it is whichever of the four leaves whole rounds behind them.
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = first;
  for (size_t i = vectors % 4; i > 0; --i, data += kBytes) {
    a = b, b = c, c = d;
    d = _mm512_loadu_si512(data);
  }
  for (vectors /= 4; vectors > 0; --vectors, data += 4 * kBytes) {
    a = Fold512<2048>(a, _mm512_loadu_si512(data));
    b = Fold512<2048>(b, _mm512_loadu_si512(data + kBytes));
    c = Fold512<2048>(c, _mm512_loadu_si512(data + 2 * kBytes));
    d = Fold512<2048>(d, _mm512_loadu_si512(data + 3 * kBytes));
  }
  d = _mm512_xor_si512(Fold512<1536>(a, Fold512<1024>(b, d)),
                       Fold512<512>(c, _mm512_setzero_si512()));
  const __m128i last = Lanes512(d);
  _mm256_zeroupper();
  return last;
}

const char* Name(CrcKernel kernel) {
  switch (kernel) {
    case CrcKernel::kTable:
      return "table";
    case CrcKernel::kIsal:
      return "isal";
    case CrcKernel::kFold128:
      return "fold128";
    case CrcKernel::kFold256:
      return "fold256";
    case CrcKernel::kFold512:
      return "fold512";
  }
  return "";
}

bool Has(CrcKernel kernel) {
  // The answers about AVX tell of the operating system too.
  const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx");
  const bool folds_wide = folds && __builtin_cpu_supports("vpclmulqdq");
  switch (kernel) {
    case CrcKernel::kFold128:
      return folds;
    case CrcKernel::kFold256:
      return folds_wide && __builtin_cpu_supports("avx2");
    case CrcKernel::kFold512:
      return folds_wide && __builtin_cpu_supports("avx512f");
    default:
      return true;
  }
}

uint32_t Crc32By(CrcKernel kernel, uint32_t crc, const uint8_t* data, size_t n) {
  switch (kernel) {
    case CrcKernel::kTable:
      return CrcByTable(crc, data, n);
    case CrcKernel::kIsal:
      return CrcByIsal(crc, data, n);
    case CrcKernel::kFold128:
      return CrcByFolding(FoldBlocks128, crc, data, n);
    case CrcKernel::kFold256:
      return CrcByFolding(FoldBlocks256, crc, data, n);
    case CrcKernel::kFold512:
      return CrcByFolding(FoldBlocks512, crc, data, n);
  }
  return crc;
}

uint32_t Crc32(uint32_t crc, const uint8_t* data, size_t n) {
  return n < kShortBytes ? CrcByTable(crc, data, n) : CrcByIsal(crc, data, n);
}

}  // namespace pollux::wire
