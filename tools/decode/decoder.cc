#include "tools/decode/decoder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cm/wire/mad.h"
#include "rpcrdma/wire/header.h"
#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"
#include "tools/decode/cm_fields.h"
#include "tools/decode/hex.h"
#include "tools/decode/names.h"
#include "tools/decode/rpcrdma_fields.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint8_t kBthNextHeader = 0x1B;  // in the GRH of RoCEv1

std::string CutText(size_t kept, size_t original) {
  return absl::StrCat("cut to ", kept, " of ", original, " bytes");
}

void AddLink(LinkLayer link, DecodedFrame* decoded) {
  decoded->source = std::move(link.source);
  decoded->destination = std::move(link.destination);
  if (!link.name.empty()) decoded->fields[link.name] = std::move(link.fields);
}

void AddIp(const IpLayer& ip, DecodedFrame* decoded) {
  if (ip.fields.is_null()) return;
  decoded->source = ip.source;
  decoded->destination = ip.destination;
  decoded->fields["ip"] = ip.fields;
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

// Those that end within the first `kept` bytes of packet.frame.
void AddExtendedHeaders(const wire::RocePacket& packet, size_t kept, DecodedFrame* decoded) {
  const auto has = [&](wire::HeaderBits header, size_t bytes) {
    return (packet.info->headers & header) != 0 &&
           static_cast<size_t>(packet.ext(header) - packet.frame) + bytes <= kept;
  };
  std::string& summary = decoded->summary;
  if (has(wire::kHasDeth, wire::kDethBytes)) {
    const wire::Deth deth = packet.deth();
    decoded->fields["deth"] = {{"qkey", Hex32(deth.qkey)},
                               {"source_qpn", Hex24(deth.source_qpn.value)}};
    absl::StrAppendFormat(&summary, " from QPN 0x%06x", deth.source_qpn.value);
  }
  if (has(wire::kHasFeth, wire::kFethBytes)) {
    const wire::Feth feth = packet.feth();
    decoded->fields["feth"] = {{"placement", feth.placement}, {"selectivity", feth.selectivity}};
    absl::StrAppend(&summary, (feth.placement & wire::kFlushGlobal) != 0 ? " global" : "",
                    (feth.placement & wire::kFlushPersistent) != 0 ? " persistent" : "",
                    feth.selectivity == wire::kFlushRegion ? " region" : "");
  }
  if (has(wire::kHasReth, wire::kRethBytes)) {
    const wire::Reth reth = packet.reth();
    decoded->fields["reth"] = {
        {"address", Hex64(reth.address)}, {"rkey", Hex32(reth.rkey)}, {"length", reth.length}};
    absl::StrAppendFormat(&summary, " address 0x%x rkey 0x%08x length %u", reth.address, reth.rkey,
                          reth.length);
  }
  if (has(wire::kHasAtomicEth, wire::kAtomicEthBytes)) {
    const wire::AtomicEth atomic = packet.atomic_eth();
    decoded->fields["atomic_eth"] = {{"address", Hex64(atomic.address)},
                                     {"rkey", Hex32(atomic.rkey)},
                                     {"swap_or_add", Hex64(atomic.swap_or_add)},
                                     {"compare", Hex64(atomic.compare)}};
    absl::StrAppendFormat(&summary, " address 0x%x rkey 0x%08x", atomic.address, atomic.rkey);
  }
  if (has(wire::kHasAeth, wire::kAethBytes)) AddAeth(packet.aeth(), decoded);
  if (has(wire::kHasAtomicAckEth, wire::kAtomicAckEthBytes)) {
    decoded->fields["atomic_ack_eth"] = {{"original", Hex64(packet.atomic_ack())}};
    absl::StrAppendFormat(&summary, " original 0x%x", packet.atomic_ack());
  }
  if (has(wire::kHasImmediate, wire::kImmediateBytes)) {
    const uint32_t immediate = LoadBe32(packet.ext(wire::kHasImmediate));
    decoded->fields["immediate"] = {{"data", Hex32(immediate)}};
    absl::StrAppendFormat(&summary, " immediate 0x%08x", immediate);
  }
  if (has(wire::kHasIeth, wire::kIethBytes)) {
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

// What of a RoCEv2 packet there is when it is damaged or not all there: `kept` bytes of `frame`,
// its UDP header at `udp_at`.
void AddWhatThereIs(const uint8_t* frame, size_t udp_at, size_t kept, DecodedFrame* decoded) {
  const size_t bth_at = udp_at + wire::kUdpBytes;
  if (kept < bth_at) return;
  AddUdp(frame + udp_at, decoded);
  if (kept < bth_at + wire::kBthBytes) return;
  wire::RocePacket packet;
  packet.frame = frame;
  packet.bth_offset = static_cast<uint16_t>(bth_at);
  packet.ext_offset = static_cast<uint16_t>(bth_at + wire::kBthBytes);
  packet.bth = wire::ParseBth(frame + bth_at);
  packet.info = wire::FindOpcode(static_cast<uint8_t>(packet.bth.opcode));
  AddBth(packet.bth, decoded);
  if (packet.info != nullptr) AddExtendedHeaders(packet, kept, decoded);
}

std::string ForeignSummary(uint16_t ether_type, const std::optional<IpLayer>& ip) {
  if (ip) return ProtocolText(ether_type, *ip);
  if (ether_type == wire::kEtherTypeArp) return "ARP";
  if (ether_type == 0) return "no IP packet";
  return absl::StrFormat("EtherType 0x%04x", ether_type);
}

// Whether the packet goes to RoCEv2's UDP port; nothing when what would tell is not there.
std::optional<bool> IsRoce(uint16_t ether_type, const std::optional<IpLayer>& ip,
                           std::span<const uint8_t> l3) {
  const bool is_ip = ether_type == wire::kEtherTypeIpv4 || ether_type == wire::kEtherTypeIpv6;
  if (is_ip && l3.empty()) return std::nullopt;
  if (!ip) return false;
  if (!ip->protocol) return std::nullopt;
  // Only the first fragment has a port to tell whose it is.
  if (*ip->protocol != wire::kIpProtocolUdp || ip->IsLaterFragment()) return false;
  const size_t port_at = ip->header_bytes + wire::udp::kDestinationPort;
  if (ip->fields.is_null() || l3.size() < port_at + 2) return std::nullopt;
  return LoadBe16(l3.data() + port_at) == wire::kRocePort;
}

// Makes the header at `header` one without the options or extension headers between it and UDP.
void DropBetween(uint16_t ether_type, const IpLayer& ip, uint8_t* header) {
  const auto shorten = [&](uint8_t* length) {
    StoreBe16(length, static_cast<uint16_t>(LoadBe16(length) - (ip.header_bytes - ip.fixed_bytes)));
  };
  if (ether_type == wire::kEtherTypeIpv4) {
    constexpr uint8_t kVersionNoOptions = 0x45;
    header[wire::ipv4::kVersionIhl] = kVersionNoOptions;
    shorten(header + wire::ipv4::kTotalLength);
    wire::UpdateIpv4Checksum(header);
  } else {
    header[wire::ipv6::kNextHeader] = wire::kIpProtocolUdp;
    shorten(header + wire::ipv6::kPayloadLength);
  }
}

}  // namespace

DecodedFrame Decoder::Decode(std::span<const uint8_t> frame, size_t original_bytes) {
  DecodedFrame decoded;
  decoded.fields = Json::object();
  const size_t missing = original_bytes > frame.size() ? original_bytes - frame.size() : 0;
  auto link = ParseLinkLayer(options_.link, frame);
  if (!link) {
    decoded.summary = absl::StrCat(frame.size(), " bytes, too short for a link-layer header");
    if (missing > 0) decoded.cut = CutText(frame.size(), original_bytes);
    return decoded;
  }
  const uint16_t ether_type = link->ether_type;
  const auto l3 = frame.subspan(link->bytes);
  AddLink(*std::move(link), &decoded);
  bool whole = true;
  if (ether_type == wire::kEtherTypeRoceV1) {
    whole = DecodeRoceV1(l3, missing, &decoded);
  } else {
    const auto ip = ParseIpLayer(ether_type, l3);
    if (ip) AddIp(*ip, &decoded);
    const auto is_roce = IsRoce(ether_type, ip, l3);
    if (is_roce.value_or(false)) {
      whole = DecodeRoceV2(ether_type, *ip, l3, missing, &decoded);
    } else {
      decoded.summary = ForeignSummary(ether_type, ip);
      whole = is_roce.has_value();
    }
  }
  if (!whole && missing > 0) {
    decoded.cut = absl::StrCat(decoded.roce ? "ICRC not checked: " : "",
                               CutText(frame.size(), original_bytes));
  } else if (!whole && !decoded.roce) {
    absl::StrAppend(&decoded.summary, ", too short for its headers");
  }
  return decoded;
}

size_t Decoder::Restore(uint16_t ether_type, const IpLayer& ip, std::span<const uint8_t> l3,
                        size_t missing) {
  const auto rest = l3.subspan(ip.header_bytes);
  const size_t kept = wire::kEthernetBytes + ip.fixed_bytes + rest.size();
  restored_ = BlankEthernet(ether_type);
  restored_.insert(restored_.end(), l3.begin(),
                   l3.begin() + static_cast<ptrdiff_t>(ip.fixed_bytes));
  restored_.insert(restored_.end(), rest.begin(), rest.end());
  // What its header promises and the wire had, not what a file says of the wire alone.
  if (ip.total_bytes > l3.size()) {
    restored_.resize(kept + std::min(missing, ip.total_bytes - l3.size()));
  }
  return kept;
}

// The packet is decoded as it was on the wire, with zeros for what was not kept, and behind a
// header without options, as the stack's parser takes it.
bool Decoder::DecodeRoceV2(uint16_t ether_type, const IpLayer& ip, std::span<const uint8_t> l3,
                           size_t missing, DecodedFrame* decoded) {
  decoded->roce = true;
  decoded->summary = "RoCEv2";
  const size_t kept = Restore(ether_type, ip, l3, missing);
  uint8_t* const header = restored_.data() + wire::kEthernetBytes;
  const size_t udp_at = wire::kEthernetBytes + ip.fixed_bytes;
  if (ip.fragment) {
    AddWhatThereIs(restored_.data(), udp_at, kept, decoded);
    decoded->problem = "the first fragment of a packet: RoCEv2 allows no fragments";
    return kept == restored_.size();
  }
  if (kept < udp_at + wire::kUdpBytes + wire::kBthBytes && missing > 0) {
    AddWhatThereIs(restored_.data(), udp_at, kept, decoded);
    return false;
  }
  wire::RocePacket packet;
  wire::ParseResult result = wire::ParseResult::kBadIpHeader;
  if (ether_type == wire::kEtherTypeIpv6 ||
      wire::InternetChecksum(l3.data(), ip.header_bytes) == 0) {
    if (!ip.between.empty()) DropBetween(ether_type, ip, header);
    // Not to be computed over what was not kept.
    if ((kept < restored_.size() || ip.rerouted) && kept >= udp_at + wire::kUdpBytes) {
      StoreBe16(restored_.data() + udp_at + wire::udp::kChecksum, 0);
    }
    result = wire::ParseRocePacket(restored_.data(), restored_.size(), &packet);
  }
  if (result != wire::ParseResult::kOk) {
    AddWhatThereIs(restored_.data(), udp_at, kept, decoded);
    decoded->problem = absl::StrCat("cannot be decoded: ", result == wire::ParseResult::kBadIpHeader
                                                               ? "wrong IPv4 header checksum"
                                                               : wire::ParseResultName(result));
    return kept == restored_.size();
  }
  AddUdp(restored_.data() + udp_at, decoded);
  DecodePacket(packet, kept, decoded);
  const bool whole = size_t{packet.icrc_offset} + wire::kIcrcBytes <= kept;
  if (!ip.between.empty()) {
    // The ICRC is defined over a header without options.
    decoded->unchecked = absl::StrCat("ICRC not checked: after ", ip.between);
  } else if (whole) {
    AddIcrc(packet, wire::ComputeIcrc(packet), decoded);
  }
  return whole;
}

// A packet of either version, but for its ICRC. The first `kept` bytes of packet.frame are there.
void Decoder::DecodePacket(const wire::RocePacket& packet, size_t kept, DecodedFrame* decoded) {
  decoded->roce = true;
  AddBth(packet.bth, decoded);
  if (packet.ecn == 3) decoded->summary += " CE";
  AddExtendedHeaders(packet, kept, decoded);
  if (packet.info->has_payload) {
    decoded->fields["payload_bytes"] = packet.payload_length;
    absl::StrAppend(&decoded->summary, " ", packet.payload_length, " bytes");
  }
  const size_t there = std::min<size_t>(
      packet.payload_length, kept > packet.payload_offset ? kept - packet.payload_offset : 0);
  if (packet.info->transport == wire::Transport::kUd && packet.bth.dest_qpn == kGsiQpn) {
    DecodeMad(packet, there, decoded);
  } else if (rpc_.BeginsMessage(packet) || (options_.rpcrdma && BeginsRcSend(packet))) {
    const bool cut = there < packet.payload_length;
    if (cut && there < rpcrdma::kFixedBytes) return;
    RpcHeaderText text =
        DecodeRpcHeader({packet.payload(), there}, cut || packet.info->position == wire::kFirst);
    absl::StrAppend(&decoded->summary, "  ", text.summary);
    decoded->fields["rpcrdma"] = std::move(text.fields);
    decoded->problem = std::move(text.problem);
  }
}

void Decoder::DecodeMad(const wire::RocePacket& packet, size_t there, DecodedFrame* decoded) {
  if (there < packet.payload_length && there < cm::kMadHeaderBytes) return;
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
  if (there < packet.payload_length) {
    absl::StrAppend(&decoded->summary, "  CM ", std::string(cm::AttributeName(header->attribute)));
    return;
  }
  const auto mad = cm::ParseMad(payload);
  if (!mad) {
    decoded->problem = absl::StrFormat("CM MAD cannot be decoded: attribute 0x%04x", attribute);
    return;
  }
  absl::StrAppend(&decoded->summary, "  CM ", CmSummary(mad->message));
  decoded->fields["cm"] = CmFields(*mad);
  if (CmaHeaderIsBad(mad->message)) {
    decoded->problem = absl::StrCat("CM ", std::string(cm::AttributeName(header->attribute)),
                                    ": the CMA header cannot be decoded");
  }
  rpc_.Follow(packet, mad->message);
}

bool Decoder::DecodeRoceV1(std::span<const uint8_t> l3, size_t missing, DecodedFrame* decoded) {
  decoded->roce = true;
  decoded->summary = "RoCEv1";
  if (l3.size() < wire::kIpv6Bytes && missing > 0) return false;
  const auto ip = ParseIpLayer(wire::kEtherTypeIpv6, l3);
  if (!ip || ip->protocol != kBthNextHeader || ip->header_bytes != wire::kIpv6Bytes ||
      l3.size() < wire::kIpv6Bytes) {
    decoded->problem = "RoCEv1: no GRH with a BTH after it";
    return true;
  }
  const size_t kept = Restore(wire::kEtherTypeRoceV1, *ip, l3, missing);
  const uint8_t* const frame = restored_.data();
  constexpr size_t l3_at = wire::kEthernetBytes;
  const auto grh = wire::ParseIpv6(frame + l3_at, restored_.size() - l3_at);
  if (!grh) {
    decoded->problem = "RoCEv1: shorter than its GRH says";
    return kept == restored_.size();
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
    return true;
  }
  if (kept < l3_at + wire::kIpv6Bytes + wire::kBthBytes) return false;
  wire::RocePacket packet;
  packet.frame = frame;
  packet.ip_version = 6;
  packet.l3_offset = static_cast<uint16_t>(l3_at);
  packet.bth_offset = static_cast<uint16_t>(l3_at + wire::kIpv6Bytes);
  packet.ext_offset = static_cast<uint16_t>(packet.bth_offset + wire::kBthBytes);
  packet.bth = wire::ParseBth(frame + packet.bth_offset);
  packet.info = wire::FindOpcode(static_cast<uint8_t>(packet.bth.opcode));
  const size_t icrc_at = packet.bth_offset + grh->payload_length - wire::kIcrcBytes;
  const size_t headers = packet.info == nullptr ? 0 : packet.info->header_bytes;
  if (packet.info == nullptr || icrc_at > 0xFFFF ||
      packet.ext_offset + headers + packet.bth.pad > icrc_at) {
    AddBth(packet.bth, decoded);
    decoded->summary = absl::StrCat("RoCEv1 ", decoded->summary);
    decoded->problem =
        packet.info == nullptr ? "RoCEv1: unknown opcode" : "RoCEv1: shorter than its headers";
    return kept == restored_.size();
  }
  packet.icrc_offset = static_cast<uint16_t>(icrc_at);
  packet.payload_offset = static_cast<uint16_t>(packet.ext_offset + headers);
  packet.payload_length = static_cast<uint16_t>(icrc_at - packet.payload_offset - packet.bth.pad);
  DecodePacket(packet, kept, decoded);
  decoded->summary = absl::StrCat("RoCEv1 ", decoded->summary);
  const bool whole = icrc_at + wire::kIcrcBytes <= kept;
  if (whole) AddIcrc(packet, IcrcOfRoceV1(packet), decoded);
  return whole;
}

}  // namespace pollux::decode
