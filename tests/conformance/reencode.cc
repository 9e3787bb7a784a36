#include "tests/conformance/reencode.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "stack/base/byte_order.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"

namespace pollux::conformance {
namespace {

using wire::RocePacket;

bool EmitIp(std::span<const uint8_t> frame, const RocePacket& packet, uint8_t* out) {
  const uint8_t* const in = frame.data() + packet.l3_offset;
  const size_t length = frame.size() - packet.l3_offset;
  if (packet.ip_version == 4) {
    const auto header = wire::ParseIpv4(in, length);
    if (header) wire::EmitIpv4(*header, out);
    return header.has_value();
  }
  const auto header = wire::ParseIpv6(in, length);
  if (header) wire::EmitIpv6(*header, out);
  return header.has_value();
}

void EmitExtHeaders(const RocePacket& packet, uint8_t* out) {
  const uint16_t headers = packet.info->headers;
  const auto at = [&](wire::HeaderBits bit) { return out + wire::ExtHeaderOffset(headers, bit); };
  if (headers & wire::kHasDeth) wire::EmitDeth(packet.deth(), at(wire::kHasDeth));
  if (headers & wire::kHasFeth) wire::EmitFeth(packet.feth(), at(wire::kHasFeth));
  if (headers & wire::kHasReth) wire::EmitReth(packet.reth(), at(wire::kHasReth));
  if (headers & wire::kHasAtomicEth) {
    wire::EmitAtomicEth(packet.atomic_eth(), at(wire::kHasAtomicEth));
  }
  if (headers & wire::kHasAeth) wire::EmitAeth(packet.aeth(), at(wire::kHasAeth));
  if (headers & wire::kHasAtomicAckEth) {
    wire::EmitAtomicAckEth(packet.atomic_ack(), at(wire::kHasAtomicAckEth));
  }
  if (headers & wire::kHasImmediate) {
    wire::EmitImmediate(packet.immediate_be(), at(wire::kHasImmediate));
  }
  if (headers & wire::kHasIeth) wire::EmitIeth(packet.ieth(), at(wire::kHasIeth));
}

// The UDP header goes last: its checksum covers everything after it.
bool EmitUdp(std::span<const uint8_t> frame, const RocePacket& packet, std::vector<uint8_t>* out) {
  const size_t offset = packet.bth_offset - wire::kUdpBytes;
  const size_t length = packet.icrc_offset + wire::kIcrcBytes - offset;
  auto header = wire::ParseUdp(frame.data() + offset, length);
  if (!header) return false;
  const bool has_checksum = header->checksum != 0;
  header->checksum = 0;
  wire::EmitUdp(*header, out->data() + offset);
  if (has_checksum) {
    header->checksum = wire::UdpChecksum(out->data() + packet.l3_offset, packet.ip_version,
                                         out->data() + offset, length);
    wire::EmitUdp(*header, out->data() + offset);
  }
  return true;
}

}  // namespace

std::vector<uint8_t> ReencodeFrame(std::span<const uint8_t> frame, const RocePacket& packet) {
  std::vector<uint8_t> out(frame.size());
  const auto ethernet = wire::ParseEthernet(frame.data(), frame.size());
  if (!ethernet || wire::EmitEthernet(*ethernet, out.data()) != packet.l3_offset) return {};
  if (!EmitIp(frame, packet, out.data() + packet.l3_offset)) return {};
  wire::EmitBth(packet.bth, out.data() + packet.bth_offset);
  EmitExtHeaders(packet, out.data() + packet.ext_offset);
  std::copy_n(packet.payload(), packet.payload_length, out.data() + packet.payload_offset);

  // The ICRC is computed over what was emitted, not over what was read.
  RocePacket view = packet;
  view.frame = out.data();
  const size_t udp_offset = packet.bth_offset - wire::kUdpBytes;
  std::copy_n(frame.data() + udp_offset, wire::kUdpBytes, out.data() + udp_offset);
  wire::EmitIcrc(wire::ComputeIcrc(view), out.data() + packet.icrc_offset);
  if (!EmitUdp(frame, packet, &out)) return {};
  const size_t end = packet.icrc_offset + wire::kIcrcBytes;
  std::copy(frame.begin() + static_cast<long>(end), frame.end(),
            out.begin() + static_cast<long>(end));
  return out;
}

std::string DescribeDifference(std::span<const uint8_t> frame, std::span<const uint8_t> reencoded,
                               const RocePacket& packet) {
  if (reencoded.empty()) return "a header cannot be decoded";
  const auto [in, out] = std::mismatch(frame.begin(), frame.end(), reencoded.begin());
  if (in == frame.end()) return "";
  const auto at = static_cast<size_t>(in - frame.begin());
  struct Part {
    size_t begin;
    const char* name;
  };
  const Part parts[] = {{packet.icrc_offset, "ICRC"},
                        {static_cast<size_t>(packet.payload_offset + packet.payload_length), "pad"},
                        {packet.payload_offset, "payload"},
                        {packet.ext_offset, "extended headers"},
                        {packet.bth_offset, "BTH"},
                        {packet.bth_offset - wire::kUdpBytes, "UDP"},
                        {packet.l3_offset, "IP"},
                        {0, "Ethernet"}};
  const Part& part = *std::find_if(std::begin(parts), std::end(parts),
                                   [&](const Part& p) { return at >= p.begin; });
  return absl::StrFormat("%s byte %d is 0x%02x, re-encoded 0x%02x", part.name, at - part.begin, *in,
                         *out);
}

}  // namespace pollux::conformance
