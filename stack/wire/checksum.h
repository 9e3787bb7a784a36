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
inline uint16_t InternetChecksum(const uint8_t* data, size_t n) {
  return ChecksumFinish(ChecksumAdd(0, data, n));
}
// Whether the checksum of a 20-byte IPv4 header without options is correct. Words are added in
// memory order: the sum is correct in any byte order (RFC 1071 section 2).
inline bool Ipv4ChecksumIsValid(const uint8_t* header) {
  uint64_t words[2];
  uint32_t last;
  std::memcpy(words, header, sizeof words);
  std::memcpy(&last, header + sizeof words, sizeof last);
  uint64_t sum = last;
  for (const uint64_t word : words) sum += (word >> 32) + static_cast<uint32_t>(word);
  sum = (sum >> 32) + static_cast<uint32_t>(sum);
  sum = (sum >> 16) + (sum & 0xFFFF);
  sum = (sum >> 16) + (sum & 0xFFFF);
  return sum == 0xFFFF;
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_CHECKSUM_H_
