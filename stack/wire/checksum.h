// The Internet checksum: ones' complement sum of 16-bit words. Source: RFC 1071.
#ifndef POLLUX_STACK_WIRE_CHECKSUM_H_
#define POLLUX_STACK_WIRE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

namespace pollux::wire {

// Adds `n` bytes to a running sum, an odd last byte padded with zero; so only the last piece of a
// sum may be odd. Starts from 0, or from the value of an earlier call.
uint64_t ChecksumAdd(uint64_t sum, const uint8_t* data, size_t n);
// The checksum field's value, host order. Over data that holds a correct checksum it is 0.
uint16_t ChecksumFinish(uint64_t sum);
inline uint16_t InternetChecksum(const uint8_t* data, size_t n) {
  return ChecksumFinish(ChecksumAdd(0, data, n));
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_CHECKSUM_H_
