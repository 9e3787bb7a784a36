// ARP for IPv4 over Ethernet. Source: RFC 826.
#ifndef POLLUX_STACK_WIRE_ARP_H_
#define POLLUX_STACK_WIRE_ARP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::wire {

inline constexpr size_t kArpBytes = 28;

// Offsets from the first byte after the Ethernet header.
namespace arp {
inline constexpr size_t kHardwareType = 0;
inline constexpr size_t kProtocolType = 2;
inline constexpr size_t kHardwareBytes = 4;
inline constexpr size_t kProtocolBytes = 5;
inline constexpr size_t kOperation = 6;
inline constexpr size_t kSenderMac = 8;
inline constexpr size_t kSenderAddress = 14;
inline constexpr size_t kTargetMac = 18;
inline constexpr size_t kTargetAddress = 24;
}  // namespace arp
static_assert(arp::kTargetAddress + 4 == kArpBytes);

enum ArpOperation : uint16_t { kArpRequest = 1, kArpReply = 2 };

struct ArpPacket {
  uint16_t operation = kArpRequest;
  MacAddress sender_mac{};
  uint32_t sender_address = 0;  // IPv4, host order
  MacAddress target_mac{};
  uint32_t target_address = 0;  // IPv4, host order
  friend bool operator==(const ArpPacket&, const ArpPacket&) = default;
};

// Returns nothing if `length` is too short (it may be longer: Ethernet padding), or if the packet
// is not about IPv4 over Ethernet. Accepts any operation.
std::optional<ArpPacket> ParseArp(const uint8_t* p, size_t length);
// Writes kArpBytes.
void EmitArp(const ArpPacket& packet, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ARP_H_
