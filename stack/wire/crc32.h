// CRC-32 (IEEE 802.3, reflected), in several implementations.
#ifndef POLLUX_STACK_WIRE_CRC32_H_
#define POLLUX_STACK_WIRE_CRC32_H_

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

namespace pollux::wire {

// The available implementations. `kIsal` is ISA-L, which chooses among its own. The last three use
// carry-less multiplication on 128, 256 or 512 bits at a time, and need AVX or more; data shorter
// than their vectors is processed 128 bits at a time. Source: Intel, "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction" (2009).
enum class CrcKernel : uint8_t { kTable, kIsal, kFold128, kFold256, kFold512 };
inline constexpr CrcKernel kCrcKernels[] = {CrcKernel::kTable, CrcKernel::kIsal,
                                            CrcKernel::kFold128, CrcKernel::kFold256,
                                            CrcKernel::kFold512};

// Returns "table", "isal", "fold128" and so on.
const char* Name(CrcKernel kernel);
// Whether the processor has the kernel's instructions and the operating system saves its registers.
bool Has(CrcKernel kernel);

// Continues a running CRC over `n` bytes with `kernel`, for which Has() must be true. `crc` is 0 at
// first, and in the complemented form in which zlib's crc32 chains it.
uint32_t Crc32By(CrcKernel kernel, uint32_t crc, const uint8_t* data, size_t n);
// The same, with a kernel that suits `n`.
uint32_t Crc32(uint32_t crc, const uint8_t* data, size_t n);

// The inner functions of the folding kernels: each folds `blocks` more blocks of 16 bytes into
// `sum`. `sum` has the same CRC as the data folded into it so far. That data starts at the
// message's first byte, or at any number of zeros in front of it. The running CRC is XORed into the
// first four bytes.
using FoldFunction = __m128i (*)(__m128i sum, const uint8_t* data, size_t blocks);
__m128i FoldBlocks128(__m128i sum, const uint8_t* data, size_t blocks);
__m128i FoldBlocks256(__m128i sum, const uint8_t* data, size_t blocks);
__m128i FoldBlocks512(__m128i sum, const uint8_t* data, size_t blocks);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_CRC32_H_
