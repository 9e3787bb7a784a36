#include "stack/wire/checksum.h"

#include "stack/base/byte_order.h"

namespace pollux::wire {

uint64_t ChecksumAdd(uint64_t sum, const uint8_t* data, size_t n) {
  // 32-bit words add up to the same ones' complement sum; 64 bits of accumulator do not overflow
  // below 2^32 of them.
  for (; n >= 4; data += 4, n -= 4) sum += LoadBe32(data);
  if (n >= 2) {
    sum += LoadBe16(data);
    data += 2;
    n -= 2;
  }
  if (n != 0) sum += static_cast<uint64_t>(*data) << 8;
  return sum;
}

uint16_t ChecksumFinish(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

}  // namespace pollux::wire
