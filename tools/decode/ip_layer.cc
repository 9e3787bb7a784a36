#include "tools/decode/ip_layer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/base/byte_order.h"
#include "stack/base/types.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "tools/decode/names.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;

// Next header values. RFC 8200 section 4
constexpr uint8_t kRouting = 43;
constexpr uint8_t kFragment = 44;
constexpr uint8_t kDestinationOptions = 60;
constexpr size_t kFragmentHeaderBytes = 8;

const char* ExtensionName(uint8_t next_header) {
  switch (next_header) {
    case wire::kIpProtocolHopByHop:
      return "hop-by-hop options";
    case kRouting:
      return "routing";
    case kFragment:
      return "fragment";
    case kDestinationOptions:
      return "destination options";
    default:
      return nullptr;
  }
}

void AddFragment(IpLayer* ip) {
  if (!ip->fragment || ip->fields.is_null()) return;
  ip->fields["fragment"] = {{"offset", ip->fragment_offset}, {"more", ip->more_fragments}};
}

void AddIpv4Fields(const uint8_t* p, IpLayer* ip) {
  ip->source = AddressText(Gid::FromIpv4(LoadBe32(p + wire::ipv4::kSource)));
  ip->destination = AddressText(Gid::FromIpv4(LoadBe32(p + wire::ipv4::kDestination)));
  ip->total_bytes = LoadBe16(p + wire::ipv4::kTotalLength);
  ip->fields = {{"source", ip->source},
                {"destination", ip->destination},
                {"dscp", p[wire::ipv4::kTos] >> 2},
                {"ecn", p[wire::ipv4::kTos] & wire::ipv4::kEcnMask},
                {"identification", LoadBe16(p + wire::ipv4::kIdentification)},
                {"ttl", p[wire::ipv4::kTtl]},
                {"protocol", p[wire::ipv4::kProtocol]},
                {"length", ip->total_bytes}};
  if (!ip->between.empty()) ip->fields["options_bytes"] = ip->header_bytes - ip->fixed_bytes;
}

std::optional<IpLayer> ParseIpv4Layer(std::span<const uint8_t> packet) {
  const uint8_t* const p = packet.data();
  IpLayer ip;
  ip.fixed_bytes = wire::kIpv4Bytes;
  ip.header_bytes = size_t{4} * (p[wire::ipv4::kVersionIhl] & 0x0F);
  if (p[wire::ipv4::kVersionIhl] >> 4 != 4 || ip.header_bytes < wire::kIpv4Bytes) {
    return std::nullopt;
  }
  if (ip.header_bytes > wire::kIpv4Bytes) ip.between = "IPv4 options";
  if (packet.size() > wire::ipv4::kProtocol) {
    const uint16_t fragment = LoadBe16(p + wire::ipv4::kFragment);
    ip.more_fragments = (fragment & wire::kIpv4MoreFragments) != 0;
    ip.fragment_offset = size_t{8} * (fragment & wire::kIpv4FragmentOffsetMask);
    ip.fragment = ip.more_fragments || ip.fragment_offset > 0;
    ip.protocol = p[wire::ipv4::kProtocol];
  }
  if (packet.size() >= wire::kIpv4Bytes) AddIpv4Fields(p, &ip);
  AddFragment(&ip);
  return ip;
}

void AddIpv6Fields(const uint8_t* p, IpLayer* ip) {
  const auto address = [&](size_t at) {
    Gid gid;
    std::copy_n(p + at, gid.raw.size(), gid.raw.begin());
    return AddressText(gid);
  };
  const uint32_t first_word = LoadBe32(p + wire::ipv6::kVersionClassFlow);
  const auto traffic_class = static_cast<uint8_t>(first_word >> 20);
  ip->source = address(wire::ipv6::kSource);
  ip->destination = address(wire::ipv6::kDestination);
  ip->total_bytes = LoadBe16(p + wire::ipv6::kPayloadLength) + wire::kIpv6Bytes;
  ip->fields = {{"source", ip->source},
                {"destination", ip->destination},
                {"dscp", traffic_class >> 2},
                {"ecn", traffic_class & wire::ipv4::kEcnMask},
                {"flow_label", absl::StrFormat("0x%05x", first_word & 0xFFFFF)},
                {"hop_limit", p[wire::ipv6::kHopLimit]},
                {"protocol", p[wire::ipv6::kNextHeader]},
                {"length", ip->total_bytes}};
}

// Steps over the extension headers, to ip->protocol and ip->header_bytes. RFC 8200 section 4
void WalkExtensionHeaders(std::span<const uint8_t> packet, IpLayer* ip) {
  for (int i = 0; i < kMaxExtensionHeaders && ip->protocol; ++i) {
    const char* const name = ExtensionName(*ip->protocol);
    if (name == nullptr || ip->IsLaterFragment()) return;
    const bool is_fragment = *ip->protocol == kFragment;
    ip->rerouted |= *ip->protocol == kRouting;
    absl::StrAppend(&ip->between, ip->between.empty() ? "IPv6 " : ", ", name);
    ip->protocol.reset();
    const size_t at = ip->header_bytes;
    if (packet.size() < at + (is_fragment ? kFragmentHeaderBytes : 2)) return;
    const uint8_t* const header = packet.data() + at;
    if (is_fragment) {
      const uint16_t place = LoadBe16(header + 2);
      ip->fragment_offset = place & 0xFFF8;
      ip->more_fragments = (place & 1) != 0;
      // One that is both the first and the last is whole. RFC 8200 section 4.5
      ip->fragment = ip->more_fragments || ip->fragment_offset > 0;
    }
    ip->protocol = header[0];
    ip->header_bytes =
        at + (is_fragment ? kFragmentHeaderBytes : size_t{8} * (size_t{header[1]} + 1));
  }
  if (ip->protocol && ExtensionName(*ip->protocol) != nullptr) ip->protocol.reset();
}

std::optional<IpLayer> ParseIpv6Layer(std::span<const uint8_t> packet) {
  if (packet[wire::ipv6::kVersionClassFlow] >> 4 != 6) return std::nullopt;
  IpLayer ip;
  ip.fixed_bytes = wire::kIpv6Bytes;
  ip.header_bytes = wire::kIpv6Bytes;
  if (packet.size() > wire::ipv6::kNextHeader) ip.protocol = packet[wire::ipv6::kNextHeader];
  if (packet.size() >= wire::kIpv6Bytes) AddIpv6Fields(packet.data(), &ip);
  WalkExtensionHeaders(packet, &ip);
  if (!ip.between.empty() && !ip.fields.is_null()) ip.fields["extension_headers"] = ip.between;
  AddFragment(&ip);
  return ip;
}

const char* ProtocolName(uint8_t protocol) {
  switch (protocol) {
    case wire::kIpProtocolIcmp:
      return "ICMP";
    case wire::kIpProtocolTcp:
      return "TCP";
    case wire::kIpProtocolUdp:
      return "UDP";
    case wire::kIpProtocolIcmpV6:
      return "ICMPv6";
    default:
      return nullptr;
  }
}

}  // namespace

std::optional<IpLayer> ParseIpLayer(uint16_t ether_type, std::span<const uint8_t> packet) {
  if (packet.empty()) return std::nullopt;
  if (ether_type == wire::kEtherTypeIpv4) return ParseIpv4Layer(packet);
  if (ether_type == wire::kEtherTypeIpv6) return ParseIpv6Layer(packet);
  return std::nullopt;
}

std::string ProtocolText(uint16_t ether_type, const IpLayer& ip) {
  std::string text = ether_type == wire::kEtherTypeIpv4 ? "IPv4" : "IPv6";
  if (ip.protocol) {
    const char* const name = ProtocolName(*ip.protocol);
    text = name != nullptr ? name : absl::StrFormat("IP protocol %u", *ip.protocol);
  }
  if (ip.fragment) absl::StrAppend(&text, " fragment at byte ", ip.fragment_offset);
  return text;
}

}  // namespace pollux::decode
