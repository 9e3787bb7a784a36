// The Internet checksum: ones' complement sum of 16-bit words. Source: RFC 1071.
#ifndef POLLUX_STACK_WIRE_CHECKSUM_H_
#define POLLUX_STACK_WIRE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/base/byte_order.h"

namespace pollux::wire {

// Adds `n` bytes to a running sum. An odd last byte is padded with zero, so only the last piece of
// a sum may have an odd length. Start with 0 or with the result of an earlier call.
inline uint64_t ChecksumAdd(uint64_t sum, const uint8_t* data, size_t n) {
  // Sums of 32-bit words give the same ones' complement sum. A 64-bit accumulator does not overflow
  // for fewer than 2^32 of them.
  for (; n >= 4; data += 4, n -= 4) sum += LoadBe32(data);
  if (n >= 2) {
    sum += LoadBe16(data);
    data += 2;
    n -= 2;
  }
  if (n != 0) sum += static_cast<uint64_t>(*data) << 8;
  return sum;
}
// The value of the checksum field, in host byte order. It is 0 for data that contains a correct
// checksum.
inline uint16_t ChecksumFinish(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}
// As ChecksumFinish(), for a sum of 32 bits.
inline uint16_t ChecksumFold(uint32_t sum) {
  // Adding the sum with its halves exchanged leaves, in the upper half, their ones' complement sum.
  sum += sum << 16 | sum >> 16;
  return static_cast<uint16_t>(~sum >> 16);
}
inline uint16_t InternetChecksum(const uint8_t* data, size_t n) {
  return ChecksumFinish(ChecksumAdd(0, data, n));
}
// The part of the checksum of a 20-byte IPv4 header without options that its addresses contribute.
inline uint64_t Ipv4AddressSum(const uint8_t* header) {
  uint32_t addresses[2];
  std::memcpy(addresses, header + 12, sizeof addresses);
  return uint64_t{addresses[0]} + addresses[1];
}
// Whether the checksum of a header with these addresses is correct. Words are added in memory
// order: the sum is correct in any byte order (RFC 1071 section 2).
[[gnu::always_inline]] inline bool Ipv4ChecksumIsValid(const uint8_t* header,
                                                       uint64_t address_sum) {
  uint64_t first;
  uint32_t second;
  std::memcpy(&first, header, sizeof first);
  std::memcpy(&second, header + sizeof first, sizeof second);
  const uint64_t sum = address_sum + second + (first >> 32) + static_cast<uint32_t>(first);
  // The upper half is small: adding it to the lower one carries at most one bit, and adding that
  // bit carries none.
  const auto upper = static_cast<uint32_t>(sum >> 32);
  uint32_t folded = static_cast<uint32_t>(sum) + upper;
  folded += folded < upper;
  return ChecksumFold(folded) == 0;
}
inline bool Ipv4ChecksumIsValid(const uint8_t* header) {
  return Ipv4ChecksumIsValid(header, Ipv4AddressSum(header));
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_CHECKSUM_H_
