// Neighbour discovery as a host speaks it, IPv6's ARP. Source: RFC 4861 section 7.2, RFC 4862
// section 5.4 (the probe for duplicates, whose outcome is reported, not waited for: RFC 4429).
#ifndef POLLUX_STACK_IP_ND_SPEAKER_H_
#define POLLUX_STACK_IP_ND_SPEAKER_H_

#include <cstdint>

#include "stack/ip/host_state.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/neighbour_discovery.h"

namespace pollux::ip {

class NdSpeaker {
 public:
  // Not owned, outlives this.
  explicit NdSpeaker(HostState* host) : host_(host) {}

  // An ICMPv6 message of exactly `length` bytes under `ip`, its checksum right, of type
  // solicitation or advertisement.
  void OnMessage(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip, const uint8_t* p,
                 size_t length, transport::PollContext& context);
  // As ArpSpeaker's.
  void Solicit(const NeighbourAddress& target, const MacAddress* unicast,
               transport::PollContext& context);
  void Probe(const GidEntry& own, transport::PollContext& context);
  void Announce(const GidEntry& own, transport::PollContext& context);

 private:
  // Whether it taught something.
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
