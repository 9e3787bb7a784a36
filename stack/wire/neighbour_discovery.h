// Neighbour solicitation and advertisement, IPv6's ARP. Source: RFC 4861 sections 4.3, 4.4, 7.1.
#ifndef POLLUX_STACK_WIRE_NEIGHBOUR_DISCOVERY_H_
#define POLLUX_STACK_WIRE_NEIGHBOUR_DISCOVERY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::wire {

// Without options, and with the one that Ethernet uses.
inline constexpr size_t kNeighbourMessageBytes = 24;
inline constexpr size_t kLinkAddressOptionBytes = 8;
// Whoever crossed a router has less: such a message is not from this link.
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
  bool solicited = false;  // an answer, sent to the one who asked
  bool overrides = false;  // replaces what is known of the target
  std::optional<MacAddress> target_mac;
  friend bool operator==(const NeighbourAdvertisement&, const NeighbourAdvertisement&) = default;
};

// Each parses an ICMPv6 message of exactly `length` bytes whose checksum is right. Nothing when the
// type or code is another, the target is a group, an option is malformed or the message is short.
// Hop limit and addresses of the IPv6 header are the caller's to judge.
std::optional<NeighbourSolicitation> ParseNeighbourSolicitation(const uint8_t* p, size_t length);
std::optional<NeighbourAdvertisement> ParseNeighbourAdvertisement(const uint8_t* p, size_t length);

// Bytes that the message takes: with an option when it has a MAC address.
size_t SizeOf(const NeighbourSolicitation& message);
size_t SizeOf(const NeighbourAdvertisement& message);
// Writes SizeOf(message) bytes, checksum included, under the IPv6 header at `l3`.
void EmitNeighbour(const NeighbourSolicitation& message, const uint8_t* l3, uint8_t* p);
void EmitNeighbour(const NeighbourAdvertisement& message, const uint8_t* l3, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_NEIGHBOUR_DISCOVERY_H_
