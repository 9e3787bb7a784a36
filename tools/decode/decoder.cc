#include "tools/decode/decoder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cm/mad.h"
#include "stack/base/byte_order.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"
#include "tools/decode/cm_fields.h"
#include "tools/decode/names.h"
#include "tools/decode/rpcrdma_fields.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint8_t kBthNextHeader = 0x1B;  // in the GRH of RoCEv1

std::string Hex24(uint32_t value) { return absl::StrFormat("0x%06x", value); }
std::string Hex32(uint32_t value) { return absl::StrFormat("0x%08x", value); }
std::string Hex64(uint64_t value) { return absl::StrFormat("0x%016x", value); }

void AddEthernet(const wire::EthernetHeader& header, DecodedFrame* decoded) {
  Json fields = {{"source", MacText(header.source)}, {"destination", MacText(header.destination)}};
  if (header.vlan_tci) {
    fields["vlan"] = *header.vlan_tci & 0xFFF;
    fields["priority"] = *header.vlan_tci >> 13;
  }
  fields["ether_type"] = absl::StrFormat("0x%04x", header.ether_type);
  decoded->fields["eth"] = std::move(fields);
  decoded->source = MacText(header.source);
  decoded->destination = MacText(header.destination);
}

// Nothing when there is no header that holds together. Gives the protocol after it and where that
// begins.
struct Network {
  uint8_t protocol;
  size_t bytes;
};
std::optional<Network> AddIp(std::span<const uint8_t> l3, uint16_t ether_type,
                             DecodedFrame* decoded) {
  if (ether_type == wire::kEtherTypeIpv4) {
    const auto ip = wire::ParseIpv4(l3.data(), l3.size());
    if (!ip) return std::nullopt;
    decoded->source = AddressText(Gid::FromIpv4(ip->source));
    decoded->destination = AddressText(Gid::FromIpv4(ip->destination));
    decoded->fields["ip"] = {{"source", decoded->source},
                             {"destination", decoded->destination},
                             {"dscp", ip->tos >> 2},
                             {"ecn", ip->tos & wire::ipv4::kEcnMask},
                             {"identification", ip->identification},
                             {"ttl", ip->ttl},
                             {"protocol", ip->protocol},
                             {"length", ip->total_length}};
    return Network{ip->protocol, ip->header_bytes};
  }
  if (ether_type == wire::kEtherTypeIpv6) {
    const auto ip = wire::ParseIpv6(l3.data(), l3.size());
    if (!ip) return std::nullopt;
    decoded->source = AddressText(ip->source);
    decoded->destination = AddressText(ip->destination);
    decoded->fields["ip"] = {{"source", decoded->source},
                             {"destination", decoded->destination},
                             {"dscp", ip->traffic_class >> 2},
                             {"ecn", ip->traffic_class & wire::ipv4::kEcnMask},
                             {"flow_label", absl::StrFormat("0x%05x", ip->flow_label)},
                             {"hop_limit", ip->hop_limit},
                             {"protocol", ip->next_header},
                             {"length", ip->payload_length + wire::kIpv6Bytes}};
    return Network{ip->next_header, wire::kIpv6Bytes};
  }
  return std::nullopt;
}

void AddUdp(const uint8_t* udp, DecodedFrame* decoded) {
  decoded->fields["udp"] = {
      {"source_port", LoadBe16(udp)},
      {"destination_port", LoadBe16(udp + wire::udp::kDestinationPort)},
  };
}

void AddBth(const wire::Bth& bth, DecodedFrame* decoded) {
  const auto opcode = static_cast<uint8_t>(bth.opcode);
  decoded->fields["bth"] = {{"opcode", absl::StrFormat("0x%02x", opcode)},
                            {"opcode_name", OpcodeName(opcode)},
                            {"solicited", bth.solicited},
                            {"mig_req", bth.mig_req},
                            {"pad", bth.pad},
                            {"version", bth.version},
                            {"pkey", absl::StrFormat("0x%04x", bth.pkey)},
                            {"fecn", bth.fecn},
                            {"becn", bth.becn},
                            {"qpn", Hex24(bth.dest_qpn.value)},
                            {"ack_request", bth.ack_request},
                            {"psn", Hex24(bth.psn.value())}};
  const std::string name = wire::FindOpcode(opcode) != nullptr
                               ? OpcodeName(opcode)
                               : absl::StrFormat("opcode 0x%02x", opcode);
  decoded->summary =
      absl::StrFormat("%s QPN 0x%06x PSN 0x%06x", name, bth.dest_qpn.value, bth.psn.value());
  for (const auto& [set, mark] :
       {std::pair{bth.ack_request, " ack-req"}, std::pair{bth.solicited, " solicited"},
        std::pair{bth.fecn, " FECN"}, std::pair{bth.becn, " BECN"}}) {
    if (set) decoded->summary += mark;
  }
}

void AddAeth(const wire::Aeth& aeth, DecodedFrame* decoded) {
  const std::string name = wire::SyndromeName(aeth.syndrome);
  Json fields = {
      {"syndrome", absl::StrFormat("0x%02x", aeth.syndrome)}, {"name", name}, {"msn", aeth.msn}};
  absl::StrAppend(&decoded->summary, " ", name);
  if (wire::IsRnrNak(aeth.syndrome)) {
    const uint32_t delay_us = wire::RnrDelayUs(aeth.syndrome & 0x1F);
    fields["rnr_delay_us"] = delay_us;
    absl::StrAppendFormat(&decoded->summary, " %u us", delay_us);
  }
  absl::StrAppendFormat(&decoded->summary, " MSN %u", aeth.msn);
  decoded->fields["aeth"] = std::move(fields);
}

void AddExtendedHeaders(const wire::RocePacket& packet, DecodedFrame* decoded) {
  const uint16_t headers = packet.info->headers;
  std::string& summary = decoded->summary;
  if (headers & wire::kHasDeth) {
    const wire::Deth deth = packet.deth();
    decoded->fields["deth"] = {{"qkey", Hex32(deth.qkey)},
                               {"source_qpn", Hex24(deth.source_qpn.value)}};
    absl::StrAppendFormat(&summary, " from QPN 0x%06x", deth.source_qpn.value);
  }
  if (headers & wire::kHasReth) {
    const wire::Reth reth = packet.reth();
    decoded->fields["reth"] = {
        {"address", Hex64(reth.address)}, {"rkey", Hex32(reth.rkey)}, {"length", reth.length}};
    absl::StrAppendFormat(&summary, " address 0x%x rkey 0x%08x length %u", reth.address, reth.rkey,
                          reth.length);
  }
  if (headers & wire::kHasAtomicEth) {
    const wire::AtomicEth atomic = packet.atomic_eth();
    decoded->fields["atomic_eth"] = {{"address", Hex64(atomic.address)},
                                     {"rkey", Hex32(atomic.rkey)},
                                     {"swap_or_add", Hex64(atomic.swap_or_add)},
                                     {"compare", Hex64(atomic.compare)}};
    absl::StrAppendFormat(&summary, " address 0x%x rkey 0x%08x", atomic.address, atomic.rkey);
  }
  if (headers & wire::kHasAeth) AddAeth(packet.aeth(), decoded);
  if (headers & wire::kHasAtomicAckEth) {
    decoded->fields["atomic_ack_eth"] = {{"original", Hex64(packet.atomic_ack())}};
    absl::StrAppendFormat(&summary, " original 0x%x", packet.atomic_ack());
  }
  if (headers & wire::kHasImmediate) {
    const uint32_t immediate = LoadBe32(packet.ext(wire::kHasImmediate));
    decoded->fields["immediate"] = {{"data", Hex32(immediate)}};
    absl::StrAppendFormat(&summary, " immediate 0x%08x", immediate);
  }
  if (headers & wire::kHasIeth) {
    decoded->fields["ieth"] = {{"rkey", Hex32(packet.ieth())}};
    absl::StrAppendFormat(&summary, " invalidate 0x%08x", packet.ieth());
  }
}

uint32_t IcrcOfRoceV1(const wire::RocePacket& packet) {
  // The GRH is masked as an IPv6 header, and no UDP header follows. IB specification volume 1,
  // annex A16.
  std::array<uint8_t, wire::kIpv6Bytes + wire::kBthBytes> masked;
  std::copy_n(packet.frame + packet.l3_offset, masked.size(), masked.begin());
  masked[0] |= 0x0F;
  for (size_t at : {size_t{1}, size_t{2}, size_t{3}, wire::ipv6::kHopLimit, wire::kIpv6Bytes + 4}) {
    masked[at] = 0xFF;
  }
  return wire::Crc32(wire::Crc32(wire::kIcrcStart, masked.data(), masked.size()),
                     packet.frame + packet.ext_offset,
                     static_cast<size_t>(packet.icrc_offset - packet.ext_offset));
}

void AddIcrc(const wire::RocePacket& packet, uint32_t computed, DecodedFrame* decoded) {
  // It stands least significant byte first; shown as its bytes stand.
  const uint32_t shown = __builtin_bswap32(computed);
  const uint32_t found = LoadBe32(packet.frame + packet.icrc_offset);
  decoded->fields["icrc"] = {{"value", Hex32(found)}, {"valid", found == shown}};
  if (found == shown) return;
  decoded->fields["icrc"]["computed"] = Hex32(shown);
  decoded->problem = absl::StrFormat("wrong ICRC: %08x on the wire, computed %08x", found, shown);
}

// What of a damaged RoCEv2 packet there is.
void AddWhatThereIs(std::span<const uint8_t> l3, const Network& network, DecodedFrame* decoded) {
  if (l3.size() < network.bytes + wire::kUdpBytes) return;
  AddUdp(l3.data() + network.bytes, decoded);
  const size_t bth_at = network.bytes + wire::kUdpBytes;
  if (l3.size() >= bth_at + wire::kBthBytes) AddBth(wire::ParseBth(l3.data() + bth_at), decoded);
}

std::string ForeignSummary(const wire::EthernetHeader& ethernet,
                           const std::optional<Network>& network) {
  if (network) {
    switch (network->protocol) {
      case wire::kIpProtocolIcmp:
        return "ICMP";
      case wire::kIpProtocolTcp:
        return "TCP";
      case wire::kIpProtocolUdp:
        return "UDP";
      case wire::kIpProtocolIcmpV6:
        return "ICMPv6";
      default:
        return absl::StrFormat("IP protocol %u", network->protocol);
    }
  }
  if (ethernet.ether_type == wire::kEtherTypeArp) return "ARP";
  return absl::StrFormat("EtherType 0x%04x", ethernet.ether_type);
}

}  // namespace

DecodedFrame Decoder::Decode(std::span<const uint8_t> frame, size_t original_bytes) {
  DecodedFrame decoded;
  decoded.fields = Json::object();
  const auto ethernet = wire::ParseEthernet(frame.data(), frame.size());
  if (!ethernet) {
    decoded.summary = absl::StrCat(frame.size(), " bytes, too short for Ethernet");
    return decoded;
  }
  AddEthernet(*ethernet, &decoded);
  const auto l3 = frame.subspan(ethernet->bytes());
  if (ethernet->ether_type == wire::kEtherTypeRoceV1) {
    DecodeRoceV1(frame, *ethernet, &decoded);
  } else {
    const auto network = AddIp(l3, ethernet->ether_type, &decoded);
    wire::RocePacket packet;
    const wire::ParseResult result = wire::ParseRocePacket(frame.data(), frame.size(), &packet);
    if (result == wire::ParseResult::kOk) {
      AddUdp(frame.data() + packet.bth_offset - wire::kUdpBytes, &decoded);
      DecodePacket(packet, &decoded);
      AddIcrc(packet, wire::ComputeIcrc(packet), &decoded);
    } else if (result == wire::ParseResult::kNotRoce) {
      decoded.summary = ForeignSummary(*ethernet, network);
    } else {
      decoded.roce = true;
      decoded.problem = absl::StrCat("does not decode: ", wire::ParseResultName(result));
      decoded.summary = "RoCEv2";
      if (network) AddWhatThereIs(l3, *network, &decoded);
    }
  }
  if (!decoded.problem.empty() && original_bytes > frame.size()) {
    decoded.problem = absl::StrCat("the capture kept ", frame.size(), " of ", original_bytes,
                                   " bytes (snap length): ", decoded.problem);
  }
  return decoded;
}

// A packet of either version, but for its ICRC.
void Decoder::DecodePacket(const wire::RocePacket& packet, DecodedFrame* decoded) {
  decoded->roce = true;
  AddBth(packet.bth, decoded);
  if (packet.ecn == 3) decoded->summary += " CE";
  AddExtendedHeaders(packet, decoded);
  if (packet.info->has_payload) {
    decoded->fields["payload_bytes"] = packet.payload_length;
    absl::StrAppend(&decoded->summary, " ", packet.payload_length, " bytes");
  }
  if (packet.info->transport == wire::Transport::kUd && packet.bth.dest_qpn == kGsiQpn) {
    DecodeMad(packet, decoded);
  } else if (rpc_.BeginsMessage(packet) || (options_.rpcrdma && BeginsRcSend(packet))) {
    RpcHeaderText text = DecodeRpcHeader({packet.payload(), packet.payload_length},
                                         packet.info->position == wire::kFirst);
    absl::StrAppend(&decoded->summary, "  ", text.summary);
    decoded->fields["rpcrdma"] = std::move(text.fields);
    decoded->problem = std::move(text.problem);
  }
}

void Decoder::DecodeMad(const wire::RocePacket& packet, DecodedFrame* decoded) {
  const std::span<const uint8_t> payload(packet.payload(), packet.payload_length);
  const auto header = cm::ParseMadHeader(payload);
  if (!header) {
    decoded->problem = absl::StrCat("a MAD of ", payload.size(), " bytes, not 256");
    return;
  }
  const auto attribute = static_cast<uint16_t>(header->attribute);
  if (header->management_class != cm::kMadClassCm) {
    decoded->fields["mad"] = {{"class", absl::StrFormat("0x%02x", header->management_class)},
                              {"method", absl::StrFormat("0x%02x", header->method)},
                              {"attribute", absl::StrFormat("0x%04x", attribute)}};
    absl::StrAppendFormat(&decoded->summary, "  MAD of class 0x%02x", header->management_class);
    return;
  }
  const auto mad = cm::ParseMad(payload);
  if (!mad) {
    decoded->problem = absl::StrFormat("CM MAD does not decode: attribute 0x%04x", attribute);
    return;
  }
  absl::StrAppend(&decoded->summary, "  CM ", CmSummary(mad->message));
  decoded->fields["cm"] = CmFields(*mad);
  if (CmaHeaderIsBad(mad->message)) {
    decoded->problem = absl::StrCat("CM ", std::string(cm::AttributeName(header->attribute)),
                                    ": the CMA header does not decode");
  }
  rpc_.Follow(packet, mad->message);
}

void Decoder::DecodeRoceV1(std::span<const uint8_t> frame, const wire::EthernetHeader& ethernet,
                           DecodedFrame* decoded) {
  decoded->roce = true;
  decoded->summary = "RoCEv1";
  const size_t l3_at = ethernet.bytes();
  const auto grh = wire::ParseIpv6(frame.data() + l3_at, frame.size() - l3_at);
  if (!grh || grh->next_header != kBthNextHeader) {
    decoded->problem = "RoCEv1: no GRH with a BTH after it";
    return;
  }
  decoded->source = AddressText(grh->source);
  decoded->destination = AddressText(grh->destination);
  decoded->fields["grh"] = {{"source", decoded->source},
                            {"destination", decoded->destination},
                            {"traffic_class", grh->traffic_class},
                            {"hop_limit", grh->hop_limit},
                            {"length", grh->payload_length}};
  if (grh->payload_length < wire::kBthBytes + wire::kIcrcBytes) {
    decoded->problem = "RoCEv1: too short for a BTH";
    return;
  }
  wire::RocePacket packet;
  packet.frame = frame.data();
  packet.ip_version = 6;
  packet.l3_offset = static_cast<uint16_t>(l3_at);
  packet.bth_offset = static_cast<uint16_t>(l3_at + wire::kIpv6Bytes);
  packet.ext_offset = static_cast<uint16_t>(packet.bth_offset + wire::kBthBytes);
  packet.bth = wire::ParseBth(frame.data() + packet.bth_offset);
  packet.info = wire::FindOpcode(static_cast<uint8_t>(packet.bth.opcode));
  const size_t icrc_at = packet.bth_offset + grh->payload_length - wire::kIcrcBytes;
  const size_t headers = packet.info == nullptr ? 0 : packet.info->header_bytes;
  if (packet.info == nullptr || icrc_at > 0xFFFF ||
      packet.ext_offset + headers + packet.bth.pad > icrc_at) {
    AddBth(packet.bth, decoded);
    decoded->summary = absl::StrCat("RoCEv1 ", decoded->summary);
    decoded->problem =
        packet.info == nullptr ? "RoCEv1: unknown opcode" : "RoCEv1: shorter than its headers";
    return;
  }
  packet.icrc_offset = static_cast<uint16_t>(icrc_at);
  packet.payload_offset = static_cast<uint16_t>(packet.ext_offset + headers);
  packet.payload_length = static_cast<uint16_t>(icrc_at - packet.payload_offset - packet.bth.pad);
  DecodePacket(packet, decoded);
  decoded->summary = absl::StrCat("RoCEv1 ", decoded->summary);
  AddIcrc(packet, IcrcOfRoceV1(packet), decoded);
}

}  // namespace pollux::decode
