#include "tools/decode/link_layer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/base/byte_order.h"
#include "stack/base/types.h"
#include "stack/wire/ethernet.h"
#include "tools/decode/names.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint16_t kEtherTypeServiceTag = 0x88A8;  // IEEE 802.1ad

// Offsets from the first byte of the cooked headers.
namespace sll {
constexpr size_t kPacketType = 0;
constexpr size_t kAddressBytes = 4;
constexpr size_t kAddress = 6;
constexpr size_t kProtocol = 14;
constexpr size_t kBytes = 16;
}  // namespace sll
namespace sll2 {
constexpr size_t kProtocol = 0;
constexpr size_t kInterface = 4;
constexpr size_t kPacketType = 10;
constexpr size_t kAddressBytes = 11;
constexpr size_t kAddress = 12;
constexpr size_t kBytes = 20;
}  // namespace sll2

std::string MacAt(const uint8_t* p) {
  MacAddress mac;
  std::copy_n(p, mac.size(), mac.begin());
  return MacText(mac);
}

const char* PacketTypeName(unsigned type) {
  static constexpr const char* kNames[] = {"to us", "broadcast", "multicast", "to another",
                                           "from us"};
  return type < std::size(kNames) ? kNames[type] : "unknown";
}

bool IsTag(uint16_t ether_type) {
  return ether_type == wire::kEtherTypeVlan || ether_type == kEtherTypeServiceTag;
}

// Steps over the tags that begin at link->bytes. False when they are not all there.
bool TakeTags(std::span<const uint8_t> frame, LinkLayer* link) {
  Json tags = Json::array();
  while (IsTag(link->ether_type) && tags.size() < kMaxVlanTags) {
    if (frame.size() < link->bytes + wire::kVlanTagBytes) return false;
    const uint8_t* const tag = frame.data() + link->bytes;
    const uint16_t tci = LoadBe16(tag);
    tags.push_back({{"type", absl::StrFormat("0x%04x", link->ether_type)},
                    {"vlan", tci & wire::kVlanIdMask},
                    {"priority", tci >> wire::kVlanPriorityShift}});
    link->ether_type = LoadBe16(tag + 2);
    link->bytes += wire::kVlanTagBytes;
  }
  if (tags.size() == 1) {
    link->fields["vlan"] = tags[0]["vlan"];
    link->fields["priority"] = tags[0]["priority"];
  } else if (!tags.empty()) {
    link->fields["tags"] = std::move(tags);
  }
  return true;
}

std::optional<LinkLayer> ParseEthernetFrame(std::span<const uint8_t> frame) {
  if (frame.size() < wire::kEthernetBytes) return std::nullopt;
  LinkLayer link;
  link.name = "eth";
  link.source = MacAt(frame.data() + wire::ethernet::kSource);
  link.destination = MacAt(frame.data() + wire::ethernet::kDestination);
  link.fields = {{"source", link.source}, {"destination", link.destination}};
  link.ether_type = LoadBe16(frame.data() + wire::ethernet::kType);
  link.bytes = wire::kEthernetBytes;
  if (!TakeTags(frame, &link)) return std::nullopt;
  link.fields["ether_type"] = absl::StrFormat("0x%04x", link.ether_type);
  return link;
}

std::optional<LinkLayer> ParseCooked(std::span<const uint8_t> frame, bool second) {
  const size_t bytes = second ? sll2::kBytes : sll::kBytes;
  if (frame.size() < bytes) return std::nullopt;
  const uint8_t* const p = frame.data();
  const unsigned packet_type = second ? p[sll2::kPacketType] : LoadBe16(p + sll::kPacketType);
  const unsigned address_bytes = second ? p[sll2::kAddressBytes] : LoadBe16(p + sll::kAddressBytes);
  LinkLayer link;
  link.name = "cooked";
  link.fields["packet_type"] = PacketTypeName(packet_type);
  if (second) link.fields["interface"] = LoadBe32(p + sll2::kInterface);
  if (address_bytes == MacAddress{}.size()) {
    link.source = MacAt(p + (second ? sll2::kAddress : sll::kAddress));
    link.fields["source"] = link.source;
  }
  link.ether_type = LoadBe16(p + (second ? sll2::kProtocol : sll::kProtocol));
  link.bytes = bytes;
  if (!TakeTags(frame, &link)) return std::nullopt;
  link.fields["ether_type"] = absl::StrFormat("0x%04x", link.ether_type);
  return link;
}

std::optional<LinkLayer> ParseNoHeader(std::span<const uint8_t> frame) {
  if (frame.empty()) return std::nullopt;
  LinkLayer link;
  const int version = frame[0] >> 4;
  if (version == 4) link.ether_type = wire::kEtherTypeIpv4;
  if (version == 6) link.ether_type = wire::kEtherTypeIpv6;
  return link;
}

}  // namespace

std::optional<LinkLayer> ParseLinkLayer(LinkType type, std::span<const uint8_t> frame) {
  switch (type) {
    case LinkType::kEthernet:
      return ParseEthernetFrame(frame);
    case LinkType::kLinuxCooked:
      return ParseCooked(frame, /*second=*/false);
    case LinkType::kLinuxCooked2:
      return ParseCooked(frame, /*second=*/true);
    case LinkType::kIp:
      break;
  }
  return ParseNoHeader(frame);
}

std::vector<uint8_t> BlankEthernet(uint16_t ether_type) {
  std::vector<uint8_t> header(wire::kEthernetBytes);
  StoreBe16(header.data() + wire::ethernet::kType, ether_type);
  return header;
}

std::vector<uint8_t> ToEthernet(LinkType type, std::span<const uint8_t> frame) {
  const auto link = ParseLinkLayer(type, frame);
  if (!link) return {};
  std::vector<uint8_t> ethernet = BlankEthernet(link->ether_type);
  const auto rest = frame.subspan(link->bytes);
  ethernet.insert(ethernet.end(), rest.begin(), rest.end());
  return ethernet;
}

}  // namespace pollux::decode
