#include "stack/ip/arp_speaker.h"

#include <optional>

namespace pollux::ip {

using transport::PollContext;

void ArpSpeaker::OnPacket(uint16_t vlan, const uint8_t* p, size_t length, PollContext& context) {
  InterfaceCounters& counters = host_->counters;
  ++counters.arp_rcvd;
  const std::optional<wire::ArpPacket> arp = wire::ParseArp(p, length);
  const bool known_operation =
      arp && (arp->operation == wire::kArpRequest || arp->operation == wire::kArpReply);
  if (!known_operation || !IsUnicast(arp->sender_mac) || arp->sender_mac == host_->mac) {
    ++counters.arp_ignored;
    return;
  }
  const bool request = arp->operation == wire::kArpRequest;
  const Gid sender = Gid::FromIpv4(arp->sender_address);
  if (host_->gids.Contains(sender, vlan)) {
    ++counters.arp_conflicts;
    NoteConflict(host_, {sender, vlan}, arp->sender_mac);
    return;
  }
  // RFC 826: an entry is made only for who speaks to this host. Who announces itself to everyone
  // (sender and target the same) is heard where an entry is there already.
  const bool to_us = host_->gids.Contains(Gid::FromIpv4(arp->target_address), vlan);
  const bool announcement = arp->target_address == arp->sender_address;
  const bool learned =
      (to_us || announcement) && host_->routes.IsNeighbour(sender, vlan) &&
      host_->neighbours.Learn({sender, vlan}, arp->sender_mac,
                              /*create=*/to_us && request,
                              request || announcement ? Evidence::kUnasked : Evidence::kAnswer,
                              context);
  learned ? ++counters.arp_learned : ++counters.arp_ignored;
  if (request && to_us && host_->answers) {
    ++counters.arp_replies_sent;
    Send({.operation = wire::kArpReply,
          .sender_mac = host_->mac,
          .sender_address = arp->target_address,
          .target_mac = arp->sender_mac,
          .target_address = arp->sender_address},
         arp->sender_mac, vlan, context);
  }
}

void ArpSpeaker::Send(const wire::ArpPacket& packet, const MacAddress& to, uint16_t vlan,
                      PollContext& context) {
  const OutFrame frame =
      BeginFrame(*host_, to, vlan, wire::kEtherTypeArp, wire::kArpBytes, context);
  if (frame.l3 == nullptr) return;
  wire::EmitArp(packet, frame.l3);
  SendFrame(frame, context);
}

void ArpSpeaker::Solicit(const NeighbourAddress& target, const MacAddress* unicast,
                         PollContext& context) {
  const std::optional<Gid> source = host_->routes.Source(target.gid, target.vlan);
  if (!source) return;  // the address went away since; nobody could answer
  ++host_->counters.arp_requests_sent;
  Send({.operation = wire::kArpRequest,
        .sender_mac = host_->mac,
        .sender_address = source->Ipv4(),
        .target_mac = {},
        .target_address = target.gid.Ipv4()},
       unicast == nullptr ? wire::kBroadcastMac : *unicast, target.vlan, context);
}

void ArpSpeaker::Probe(const GidEntry& own, PollContext& context) {
  ++host_->counters.arp_requests_sent;
  Send({.operation = wire::kArpRequest,
        .sender_mac = host_->mac,
        .sender_address = 0,
        .target_mac = {},
        .target_address = own.gid.Ipv4()},
       wire::kBroadcastMac, own.vlan, context);
}

void ArpSpeaker::Announce(const GidEntry& own, PollContext& context) {
  ++host_->counters.arp_requests_sent;
  Send({.operation = wire::kArpRequest,
        .sender_mac = host_->mac,
        .sender_address = own.gid.Ipv4(),
        .target_mac = {},
        .target_address = own.gid.Ipv4()},
       wire::kBroadcastMac, own.vlan, context);
}

}  // namespace pollux::ip
