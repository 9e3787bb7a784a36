// One step of a CRC by carry-less multiplication, in 128 bits. For crc32.cc and icrc.cc; the
// functions there that use it must have the same target attribute. All values are reflected: the
// lowest bit of a register is the coefficient of its highest power.
#ifndef POLLUX_STACK_WIRE_CRC32_FOLD_H_
#define POLLUX_STACK_WIRE_CRC32_FOLD_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// AVX for its encodings with three operands, of which the last may be in memory at any address: a
// quarter fewer instructions for a short packet than with SSE's.
#define POLLUX_TARGET_128 target("avx,pclmul")

namespace pollux::wire::fold {

inline constexpr uint32_t kPolynomial = 0xEDB88320;
inline constexpr size_t kBlock = 16;  // bytes

// x^power modulo the polynomial, as a factor. In a 64-bit register it represents x^power * x^31,
// and the product of two 64-bit registers is shifted by one more bit, so multiplying a register by
// this factor multiplies its value by x^power * x^32.
constexpr uint64_t Factor(unsigned power) {
  uint32_t remainder = 0x80000000;  // x^0
  for (; power > 0; --power) {
    remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kPolynomial : 0);
  }
  return uint64_t{remainder} << 1;
}

// The factors that advance the two halves of a sum by `bits` bits.
struct Factors {
  explicit constexpr Factors(unsigned bits)
      : low(static_cast<int64_t>(Factor(bits + 32))),
        high(static_cast<int64_t>(Factor(bits - 32))) {}
  int64_t low, high;
};

inline __m128i LoadBlock(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// Advances the sum by one block and adds the next block to it.
__attribute__((POLLUX_TARGET_128, always_inline)) inline __m128i Fold(__m128i sum, __m128i next) {
  constexpr Factors kByBlock(128);
  const __m128i factors = _mm_set_epi64x(kByBlock.high, kByBlock.low);
  const __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(sum, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// The polynomial including its highest power, and its inverse modulo x^32; for the inverse the
// lowest bit is the coefficient of x^0.
inline constexpr uint64_t kWholePolynomial = uint64_t{kPolynomial} << 1 | 1;
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

// Returns the complemented CRC of a message whose blocks were folded into `sum`.
__attribute__((POLLUX_TARGET_128, always_inline)) inline uint32_t Reduce(__m128i sum) {
  const __m128i factors =
      _mm_set_epi64x(static_cast<int64_t>(Factor(96)), static_cast<int64_t>(Factor(64)));
  const __m128i last = _mm_set_epi64x(static_cast<int64_t>(kWholePolynomial),
                                      static_cast<int64_t>(InverseOfPolynomial()));
  const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
  // Reduces 128 bits to 96, and those to 64.
  sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, factors, 0x10), _mm_srli_si128(sum, 8));
  sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, low_word), factors, 0x00),
                      _mm_srli_si128(sum, 4));
  // Adding a multiple of the polynomial clears the low word.
  const __m128i multiple = _mm_and_si128(_mm_clmulepi64_si128(sum, last, 0x00), low_word);
  sum = _mm_xor_si128(sum, _mm_clmulepi64_si128(multiple, last, 0x10));
  return ~static_cast<uint32_t>(_mm_cvtsi128_si64(sum) >> 32);
}

}  // namespace pollux::wire::fold

#endif  // POLLUX_STACK_WIRE_CRC32_FOLD_H_
