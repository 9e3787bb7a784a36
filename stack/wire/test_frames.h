// A few real frames for tests. More are in tests/conformance.
#ifndef POLLUX_STACK_WIRE_TEST_FRAMES_H_
#define POLLUX_STACK_WIRE_TEST_FRAMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace pollux::wire {

inline constexpr std::string_view kUcSendOnlyIpv4 =
    "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002c00002460ffff"
    "000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3";
inline constexpr std::string_view kUcSendOnlyIpv6 =
    "248a07a8fa22248a07a8fa2286dd6e21face002c11ff20220000000000000000000000001023202300000000000000"
    "00000000001024c00012b7002c00002460ffff000000d300cf17104630818be28935d90e9a95505401be885e500000"
    "3e5b743b";
// From a ConnectX-4 Lx.
inline constexpr std::string_view kCnpFrame =
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff"
    "40000118000000000000000000000000000000000000000082fd002a";

inline std::vector<uint8_t> FromHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return bytes;
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_TEST_FRAMES_H_
