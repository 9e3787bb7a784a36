// What stands before the IP header of a captured frame: Ethernet with its VLAN tags, what Linux
// writes for the interface "any" ("cooked"), or nothing.
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

// Tags of a frame that are stepped over: providers stack two.
inline constexpr size_t kMaxVlanTags = 4;

struct LinkLayer {
  std::string name;               // of the header in the fields; empty when there is none
  nlohmann::ordered_json fields;  // an object
  std::string source = "-";       // MAC addresses, where there are
  std::string destination = "-";
  uint16_t ether_type = 0;  // of what follows; 0 when nothing says; a tag's past kMaxVlanTags
  size_t bytes = 0;         // before what follows
};

// Nothing when `frame` does not hold the header with its tags.
std::optional<LinkLayer> ParseLinkLayer(LinkType type, std::span<const uint8_t> frame);

// An Ethernet header of zeros but for its type, kEthernetBytes of it.
std::vector<uint8_t> BlankEthernet(uint16_t ether_type);

// `frame` as Ethernet would carry it: what follows the link-layer header behind a blank one, for
// whoever knows Ethernet alone. Empty when ParseLinkLayer() finds nothing.
std::vector<uint8_t> ToEthernet(LinkType type, std::span<const uint8_t> frame);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_LINK_LAYER_H_
