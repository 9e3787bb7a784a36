// The Ethernet II header, with at most one 802.1Q tag. Source: IEEE 802.3, IEEE 802.1Q.
#ifndef POLLUX_STACK_WIRE_ETHERNET_H_
#define POLLUX_STACK_WIRE_ETHERNET_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::wire {

inline constexpr size_t kEthernetBytes = 14;  // without a tag
inline constexpr size_t kVlanTagBytes = 4;
// The fields of a tag's 16 bits are: priority 3 bits, DEI 1, VLAN ID 12.
inline constexpr uint16_t kVlanIdMask = 0x0FFF;
inline constexpr int kVlanPriorityShift = 13;
inline constexpr MacAddress kBroadcastMac = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

enum EtherType : uint16_t {
  kEtherTypeIpv4 = 0x0800,
  kEtherTypeArp = 0x0806,
  kEtherTypeVlan = 0x8100,
  kEtherTypeIpv6 = 0x86DD,
  kEtherTypeRoceV1 = 0x8915,  // recognised only for diagnosis
};

// Offsets from the first byte of the frame. If there is a tag, it starts at kType.
namespace ethernet {
inline constexpr size_t kDestination = 0;
inline constexpr size_t kSource = 6;
inline constexpr size_t kType = 12;
inline constexpr size_t kVlanTci = 14;
inline constexpr size_t kVlanInnerType = 16;
}  // namespace ethernet
static_assert(ethernet::kType + 2 == kEthernetBytes);
static_assert(ethernet::kVlanInnerType + 2 == kEthernetBytes + kVlanTagBytes);

struct EthernetHeader {
  MacAddress destination{};
  MacAddress source{};
  std::optional<uint16_t> vlan_tci;  // empty: no tag
  uint16_t ether_type = 0;           // of the protocol after the tag

  size_t bytes() const { return kEthernetBytes + (vlan_tci ? kVlanTagBytes : 0); }
  friend bool operator==(const EthernetHeader&, const EthernetHeader&) = default;
};

// Returns nothing if `length` bytes do not hold the header.
std::optional<EthernetHeader> ParseEthernet(const uint8_t* p, size_t length);
// Writes header.bytes() bytes at `p` and returns their number.
size_t EmitEthernet(const EthernetHeader& header, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ETHERNET_H_
