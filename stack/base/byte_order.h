// Loads and stores of big-endian numbers at any alignment. Values are in host byte order.
#ifndef POLLUX_STACK_BASE_BYTE_ORDER_H_
#define POLLUX_STACK_BASE_BYTE_ORDER_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace pollux {

static_assert(std::endian::native == std::endian::little);

// always_inline: gcc's inliner counts a byte swap as a call, so it often does not inline these.
[[gnu::always_inline]] inline uint16_t LoadBe16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap16(value);
}
[[gnu::always_inline]] inline uint32_t LoadBe24(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 8 | p[2];
}
[[gnu::always_inline]] inline uint32_t LoadBe32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap32(value);
}
[[gnu::always_inline]] inline uint64_t LoadBe64(const uint8_t* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap64(value);
}
[[gnu::always_inline]] inline void StoreBe16(uint8_t* p, uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(p, &value, sizeof value);
}
[[gnu::always_inline]] inline void StoreBe24(uint8_t* p, uint32_t value) {
  p[0] = static_cast<uint8_t>(value >> 16);
  p[1] = static_cast<uint8_t>(value >> 8);
  p[2] = static_cast<uint8_t>(value);
}
[[gnu::always_inline]] inline void StoreBe32(uint8_t* p, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(p, &value, sizeof value);
}
[[gnu::always_inline]] inline void StoreBe64(uint8_t* p, uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(p, &value, sizeof value);
}

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_BYTE_ORDER_H_
