// Addresses as people write them, and an interface's own with the link that it is on.
#ifndef POLLUX_STACK_BASE_ADDRESS_H_
#define POLLUX_STACK_BASE_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stack/base/types.h"

namespace pollux {

inline constexpr uint16_t kNoVlan = 0;  // frames without a tag
inline constexpr uint16_t kMaxVlan = 4094;

// One of an interface's own addresses.
struct InterfaceAddress {
  Gid address;
  uint8_t prefix_length = 64;  // of its IP version: 0..32, 0..128
  uint16_t vlan = kNoVlan;     // 1..kMaxVlan: 802.1Q VLAN ID
  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;

  static constexpr InterfaceAddress Ipv4(uint32_t host_order, uint8_t prefix_length = 24) {
    return {.address = Gid::FromIpv4(host_order), .prefix_length = prefix_length};
  }
};

// "192.0.2.1" or "2001:db8::1"; InvalidArgument else.
absl::StatusOr<Gid> ParseAddress(absl::string_view text);
// "192.0.2.1/24", "2001:db8::1/64", "192.0.2.1/24,vlan=100". InvalidArgument else, and for what is
// not the address of one host.
absl::StatusOr<InterfaceAddress> ParseInterfaceAddress(absl::string_view text);

std::string FormatAddress(const Gid& address);
std::string FormatInterfaceAddress(const InterfaceAddress& address);  // as it is parsed
std::string FormatMac(const MacAddress& mac);

// Whether both are of one IP version and agree in the first `prefix_length` bits of it.
bool InPrefix(const Gid& address, const Gid& prefix, uint8_t prefix_length);
// In how many leading bits two addresses of one IP version agree; 0 for two of different versions.
int CommonPrefixLength(const Gid& a, const Gid& b);
// Whether an IPv4 address is the first or the last of its own prefix, which no host has.
bool IsNetworkOrBroadcast(const InterfaceAddress& own);
// Neither a group nor unspecified nor loopback nor, in IPv4, reserved (RFC 6890) or broadcast to
// all.
bool IsOneHost(const Gid& address);

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_ADDRESS_H_
