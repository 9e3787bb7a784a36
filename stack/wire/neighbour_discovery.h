// Neighbour solicitation and advertisement, IPv6's counterpart of ARP. Source: RFC 4861 sections
// 4.3, 4.4, 7.1.
#ifndef POLLUX_STACK_WIRE_NEIGHBOUR_DISCOVERY_H_
#define POLLUX_STACK_WIRE_NEIGHBOUR_DISCOVERY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::wire {

// The size of a message without options, and of the link-layer address option for Ethernet.
inline constexpr size_t kNeighbourMessageBytes = 24;
inline constexpr size_t kLinkAddressOptionBytes = 8;
// A router decrements the hop limit, so a message with a lower one did not come from this link.
inline constexpr uint8_t kNeighbourHopLimit = 255;

// Offsets from the first byte of the ICMPv6 header.
namespace nd {
inline constexpr size_t kFlags = 4;
inline constexpr size_t kTarget = 8;
inline constexpr size_t kOptions = 24;
}  // namespace nd
static_assert(nd::kOptions == kNeighbourMessageBytes);

struct NeighbourSolicitation {
  Gid target;
  std::optional<MacAddress> source_mac;  // none in a probe for duplicates (RFC 4862)
  friend bool operator==(const NeighbourSolicitation&, const NeighbourSolicitation&) = default;
};

struct NeighbourAdvertisement {
  Gid target;
  bool router = false;
  bool solicited = false;  // the answer to a solicitation, sent to its sender
  bool overrides = false;  // replaces the cached MAC address of the target
  std::optional<MacAddress> target_mac;
  friend bool operator==(const NeighbourAdvertisement&, const NeighbourAdvertisement&) = default;
};

// Each parses an ICMPv6 message of exactly `length` bytes whose checksum is right. Returns nothing
// if the type or code differs, the target is a multicast address, an option is malformed, or the
// message is too short. The caller checks the hop limit and the addresses of the IPv6 header.
std::optional<NeighbourSolicitation> ParseNeighbourSolicitation(const uint8_t* p, size_t length);
std::optional<NeighbourAdvertisement> ParseNeighbourAdvertisement(const uint8_t* p, size_t length);

// The size of a message in bytes, including an option if it has a MAC address.
size_t SizeOf(const NeighbourSolicitation& message);
size_t SizeOf(const NeighbourAdvertisement& message);
// Writes SizeOf(message) bytes at `p`, including the checksum. The IPv6 header at `l3` must be
// complete.
void EmitNeighbour(const NeighbourSolicitation& message, const uint8_t* l3, uint8_t* p);
void EmitNeighbour(const NeighbourAdvertisement& message, const uint8_t* l3, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_NEIGHBOUR_DISCOVERY_H_
