#include "stack/ip/nd_speaker.h"

#include <optional>

#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/multicast.h"

namespace pollux::ip {

using transport::PollContext;

void NdSpeaker::OnMessage(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip,
                          const uint8_t* p, size_t length, PollContext& context) {
  ++host_->counters.nd_rcvd;
  bool learned = false;
  // RFC 4861 section 7.1: what crossed a router is not from this link.
  if (ip.hop_limit == wire::kNeighbourHopLimit && ethernet.source != host_->mac) {
    if (const auto asked = wire::ParseNeighbourSolicitation(p, length)) {
      learned = OnSolicitation(ethernet, ip, *asked, context);
    } else if (const auto told = wire::ParseNeighbourAdvertisement(p, length)) {
      learned = OnAdvertisement(ethernet, ip, *told, context);
    }
  }
  learned ? ++host_->counters.nd_learned : ++host_->counters.nd_ignored;
}

bool NdSpeaker::OnSolicitation(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip,
                               const wire::NeighbourSolicitation& asked, PollContext& context) {
  const uint16_t vlan = VlanOf(ethernet);
  if (!host_->gids.Contains(asked.target, vlan)) return false;
  const GidEntry own{.gid = asked.target, .vlan = vlan};
  if (ip.source.IsZero()) {
    // RFC 4861 section 7.1.1: a probe for duplicates goes to the group and names no MAC address.
    if (ip.destination != wire::SolicitedNodeGroup(asked.target) || asked.source_mac) return false;
    Advertise(own, /*solicited=*/false, wire::kAllNodesIpv6,
              wire::MulticastMac(wire::kAllNodesIpv6), context);
    return false;
  }
  if (!IsOneHost(ip.source) || host_->gids.Contains(ip.source, vlan)) return false;
  const MacAddress mac = asked.source_mac.value_or(ethernet.source);
  if (!IsUnicast(mac)) return false;
  // A host outside this host's prefixes gets an answer (RFC 4861 section 7.2.4), but is not
  // learned: packets to it go to a router.
  const bool learned =
      asked.source_mac && host_->routes.IsNeighbour(ip.source, vlan) &&
      host_->neighbours.Learn({ip.source, vlan}, mac, /*create=*/true, Evidence::kUnasked, context);
  Advertise(own, /*solicited=*/true, ip.source, mac, context);
  return learned;
}

bool NdSpeaker::OnAdvertisement(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip,
                                const wire::NeighbourAdvertisement& told, PollContext& context) {
  const uint16_t vlan = VlanOf(ethernet);
  // RFC 4861 section 7.1.2: an answer to everyone answers nobody.
  if (told.solicited && ip.destination.IsMulticast()) return false;
  const NeighbourAddress neighbour{told.target, vlan};
  std::optional<MacAddress> mac = told.target_mac;
  // RFC 4861 section 7.2.4: an answer to who was asked alone may leave it out, and Linux's does.
  if (!mac && told.solicited && host_->neighbours.state(neighbour) == NeighbourState::kProbe) {
    mac = ethernet.source;
  }
  if (!mac || !IsUnicast(*mac)) return false;
  if (host_->gids.Contains(told.target, vlan)) {
    if (*mac == host_->mac) return false;
    ++host_->counters.nd_conflicts;
    NoteConflict(host_, {told.target, vlan}, *mac);
    return false;
  }
  if (!host_->routes.IsNeighbour(told.target, vlan)) return false;
  // RFC 4861 section 7.2.5: without the flag it says nothing about a MAC address that is known.
  if (!told.overrides && !told.solicited &&
      host_->neighbours.state(neighbour) != NeighbourState::kIncomplete) {
    return false;
  }
  return host_->neighbours.Learn(neighbour, *mac, /*create=*/false,
                                 told.solicited ? Evidence::kAnswer : Evidence::kUnasked, context);
}

template <class Message>
void NdSpeaker::Send(const Message& message, const Gid& from, const Gid& to,
                     const MacAddress& to_mac, uint16_t vlan, PollContext& context) {
  const size_t bytes = wire::SizeOf(message);
  const OutFrame frame =
      BeginFrame(*host_, to_mac, vlan, wire::kEtherTypeIpv6, wire::kIpv6Bytes + bytes, context);
  if (frame.l3 == nullptr) return;
  wire::EmitIpv6({.payload_length = static_cast<uint16_t>(bytes),
                  .next_header = wire::kIpProtocolIcmpV6,
                  .hop_limit = wire::kNeighbourHopLimit,
                  .source = from,
                  .destination = to},
                 frame.l3);
  wire::EmitNeighbour(message, frame.l3, frame.l3 + wire::kIpv6Bytes);
  SendFrame(frame, context);
}

void NdSpeaker::Advertise(const GidEntry& own, bool solicited, const Gid& to,
                          const MacAddress& to_mac, PollContext& context) {
  if (!host_->answers) return;
  ++host_->counters.nd_advertisements_sent;
  Send(
      wire::NeighbourAdvertisement{
          .target = own.gid, .solicited = solicited, .overrides = true, .target_mac = host_->mac},
      own.gid, to, to_mac, own.vlan, context);
}

void NdSpeaker::Solicit(const NeighbourAddress& target, const MacAddress* unicast,
                        PollContext& context) {
  const std::optional<Gid> source = host_->routes.Source(target.gid, target.vlan);
  if (!source) return;  // the address went away since; nobody could answer
  ++host_->counters.nd_solicitations_sent;
  const Gid group = wire::SolicitedNodeGroup(target.gid);
  Send(wire::NeighbourSolicitation{.target = target.gid, .source_mac = host_->mac}, *source,
       unicast == nullptr ? group : target.gid,
       unicast == nullptr ? wire::MulticastMac(group) : *unicast, target.vlan, context);
}

void NdSpeaker::Probe(const GidEntry& own, PollContext& context) {
  ++host_->counters.nd_solicitations_sent;
  const Gid group = wire::SolicitedNodeGroup(own.gid);
  Send(wire::NeighbourSolicitation{.target = own.gid, .source_mac = std::nullopt}, Gid{}, group,
       wire::MulticastMac(group), own.vlan, context);
}

void NdSpeaker::Announce(const GidEntry& own, PollContext& context) {
  Advertise(own, /*solicited=*/false, wire::kAllNodesIpv6, wire::MulticastMac(wire::kAllNodesIpv6),
            context);
}

}  // namespace pollux::ip
