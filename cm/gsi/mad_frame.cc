#include "cm/gsi/mad_frame.h"

#include <algorithm>

#include "stack/transport/message/packet_builder.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"

namespace pollux::cm {

size_t EmitMadFrame(const verbs::AddressHandle& path, const MadBuffer& mad, uint8_t* frame) {
  constexpr uint16_t kUdpLength =
      wire::kUdpBytes + wire::kBthBytes + wire::kDethBytes + kMadBytes + wire::kIcrcBytes;
  const bool is_ipv4 = path.destination.IsIpv4();
  uint8_t* p = frame;
  p += wire::EmitEthernet({.destination = path.link->Load().mac,
                           .source = path.own_link->Load().mac,
                           .vlan_tci = path.vlan_tci,
                           .ether_type = is_ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6},
                          p);
  const uint8_t* const l3 = p;
  if (is_ipv4) {
    wire::EmitIpv4({.tos = path.traffic_class,
                    .total_length = wire::kIpv4Bytes + kUdpLength,
                    .ttl = path.hop_limit,
                    .protocol = wire::kIpProtocolUdp,
                    .source = path.source.Ipv4(),
                    .destination = path.destination.Ipv4()},
                   p);
    p += wire::kIpv4Bytes;
  } else {
    wire::EmitIpv6({.traffic_class = path.traffic_class,
                    .flow_label = path.flow_label,
                    .payload_length = kUdpLength,
                    .next_header = wire::kIpProtocolUdp,
                    .hop_limit = path.hop_limit,
                    .source = path.source,
                    .destination = path.destination},
                   p);
    p += wire::kIpv6Bytes;
  }
  wire::EmitUdp({.source_port = transport::FlowSourcePort(path.source, kGsiQpn, kGsiQpn),
                 .destination_port = wire::kRocePort,
                 .length = kUdpLength},
                p);
  p += wire::kUdpBytes;
  wire::EmitBth({.opcode = wire::Opcode::kUdSendOnly, .dest_qpn = kGsiQpn}, p);
  p += wire::kBthBytes;
  wire::EmitDeth({.qkey = kGsiQkey, .source_qpn = kGsiQpn}, p);
  p = std::ranges::copy(mad, p + wire::kDethBytes).out;
  wire::EmitIcrc(wire::Icrc(l3, is_ipv4 ? 4 : 6, static_cast<size_t>(p - l3)), p);
  return static_cast<size_t>(p + wire::kIcrcBytes - frame);
}

}  // namespace pollux::cm
