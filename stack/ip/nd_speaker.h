// A host's part of neighbour discovery, IPv6's counterpart of ARP. Source: RFC 4861 section 7.2,
// RFC 4862 section 5.4 (duplicate address detection; a conflict is reported, but addresses are used
// at once: RFC 4429).
#ifndef POLLUX_STACK_IP_ND_SPEAKER_H_
#define POLLUX_STACK_IP_ND_SPEAKER_H_

#include <cstdint>

#include "stack/ip/host_state.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/neighbour_discovery.h"

namespace pollux::ip {

class NdSpeaker {
 public:
  // `host` is not owned and must outlive this object.
  explicit NdSpeaker(HostState* host) : host_(host) {}

  // Handles a solicitation or advertisement: an ICMPv6 message of exactly `length` bytes that
  // follows the header `ip`. Its checksum has been verified.
  void OnMessage(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip, const uint8_t* p,
                 size_t length, transport::PollContext& context);
  // As in ArpSpeaker.
  void Solicit(const NeighbourAddress& target, const MacAddress* unicast,
               transport::PollContext& context);
  void Probe(const GidEntry& own, transport::PollContext& context);
  void Announce(const GidEntry& own, transport::PollContext& context);

 private:
  // Both return whether anything was learned.
  bool OnSolicitation(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip,
                      const wire::NeighbourSolicitation& asked, transport::PollContext& context);
  bool OnAdvertisement(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip,
                       const wire::NeighbourAdvertisement& told, transport::PollContext& context);
  void Advertise(const GidEntry& own, bool solicited, const Gid& to, const MacAddress& to_mac,
                 transport::PollContext& context);
  template <class Message>
  void Send(const Message& message, const Gid& from, const Gid& to, const MacAddress& to_mac,
            uint16_t vlan, transport::PollContext& context);

  HostState* host_;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_ND_SPEAKER_H_
