// Parses the header before the IP header of a captured frame: Ethernet with VLAN tags, the header
// that Linux writes for the interface "any" ("cooked"), or none.
#ifndef POLLUX_TOOLS_DECODE_LINK_LAYER_H_
#define POLLUX_TOOLS_DECODE_LINK_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/decode/link_type.h"

namespace pollux::decode {

// The most VLAN tags that are skipped; providers use two.
inline constexpr size_t kMaxVlanTags = 4;

struct LinkLayer {
  std::string name;               // the header's name in the fields; empty if there is none
  nlohmann::ordered_json fields;  // an object
  std::string source = "-";       // MAC addresses if there are any
  std::string destination = "-";
  // of the next header; 0 if unknown; a tag's if there are more than kMaxVlanTags
  uint16_t ether_type = 0;
  size_t bytes = 0;  // the size of the header
};

// Returns nothing if `frame` is shorter than the header with its tags.
std::optional<LinkLayer> ParseLinkLayer(LinkType type, std::span<const uint8_t> frame);

// An Ethernet header of kEthernetBytes, all zeros except for its type.
std::vector<uint8_t> BlankEthernet(uint16_t ether_type);

// Replaces the link-layer header of `frame` by a blank Ethernet header, for code that supports only
// Ethernet. Empty if ParseLinkLayer() returns nothing.
std::vector<uint8_t> ToEthernet(LinkType type, std::span<const uint8_t> frame);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_LINK_LAYER_H_
