// Textual forms of IP and MAC addresses, and an interface's own address with its prefix and VLAN.
#ifndef POLLUX_STACK_BASE_ADDRESS_H_
#define POLLUX_STACK_BASE_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stack/base/types.h"

namespace pollux {

inline constexpr uint16_t kNoVlan = 0;  // frames without an 802.1Q tag
inline constexpr uint16_t kMaxVlan = 4094;

// One address of an interface. Port addresses are given in this form (DeviceOptions::addresses).
struct InterfaceAddress {
  Gid address;
  uint8_t prefix_length = 64;  // in bits: 0..32 for IPv4, 0..128 for IPv6
  uint16_t vlan = kNoVlan;     // 802.1Q VLAN ID, 1..kMaxVlan, or kNoVlan
  bool deprecated = false;     // RFC 4862 section 5.5.4: no IPv6 source if there is another
  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;

  static constexpr InterfaceAddress Ipv4(uint32_t host_order, uint8_t prefix_length = 24) {
    return {.address = Gid::FromIpv4(host_order), .prefix_length = prefix_length};
  }
};

// Parses "192.0.2.1" or "2001:db8::1". Returns InvalidArgument for anything else.
absl::StatusOr<Gid> ParseAddress(absl::string_view text);
// Parses "192.0.2.1/24", "2001:db8::1/64" or "192.0.2.1/24,vlan=100". Returns InvalidArgument for
// anything else, and for an address that no host can have.
absl::StatusOr<InterfaceAddress> ParseInterfaceAddress(absl::string_view text);

std::string FormatAddress(const Gid& address);
// Returns the form that ParseInterfaceAddress() parses.
std::string FormatInterfaceAddress(const InterfaceAddress& address);
std::string FormatMac(const MacAddress& mac);

// Whether both addresses have the same IP version and the same first `prefix_length` bits. The bits
// are counted within that version: 0..32 or 0..128.
bool InPrefix(const Gid& address, const Gid& prefix, uint8_t prefix_length);
// The number of leading bits that two addresses of one IP version share; 0 if the versions differ.
int CommonPrefixLength(const Gid& a, const Gid& b);
// Whether an IPv4 address is the first (network) or last (broadcast) of its own prefix. No host has
// such an address.
bool IsNetworkOrBroadcast(const InterfaceAddress& own);
// Whether a host can have this address: it is not multicast, unspecified or loopback, and, for
// IPv4, not reserved (RFC 6890) or the limited broadcast address.
bool IsOneHost(const Gid& address);

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_ADDRESS_H_
