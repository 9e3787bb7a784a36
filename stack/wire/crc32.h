// CRC-32 (IEEE 802.3, reflected) by each of the ways that processors offer.
#ifndef POLLUX_STACK_WIRE_CRC32_H_
#define POLLUX_STACK_WIRE_CRC32_H_

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

namespace pollux::wire {

// The ways there are. `kIsal` is ISA-L's choice among its own. The last three multiply without
// carries, so many bits at a time; of what is shorter than their vectors they do it in 128 bits.
// Source: Intel, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (2009).
enum class CrcKernel : uint8_t { kTable, kIsal, kFold128, kFold256, kFold512 };
inline constexpr CrcKernel kCrcKernels[] = {CrcKernel::kTable, CrcKernel::kIsal,
                                            CrcKernel::kFold128, CrcKernel::kFold256,
                                            CrcKernel::kFold512};

// "table", "isal", "fold128", ...
const char* Name(CrcKernel kernel);
// Whether the processor has its instructions and the operating system keeps its registers.
bool Has(CrcKernel kernel);

// Continues a running CRC (0 at first, in the complemented form in which zlib's crc32 chains it)
// over `n` bytes, by `kernel`, which Has().
uint32_t Crc32By(CrcKernel kernel, uint32_t crc, const uint8_t* data, size_t n);
// The same by one that suits `n`.
uint32_t Crc32(uint32_t crc, const uint8_t* data, size_t n);

// What the folding ways are made of. A sum stands for the CRC of what was added to it, a block of
// 16 bytes after the other, from the first byte of the message or from any number of zeros before
// it; the running CRC is added to the first four bytes. Folds `blocks` more into it.
using FoldFunction = __m128i (*)(__m128i sum, const uint8_t* data, size_t blocks);
__m128i FoldBlocks128(__m128i sum, const uint8_t* data, size_t blocks);
__m128i FoldBlocks256(__m128i sum, const uint8_t* data, size_t blocks);
__m128i FoldBlocks512(__m128i sum, const uint8_t* data, size_t blocks);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_CRC32_H_
