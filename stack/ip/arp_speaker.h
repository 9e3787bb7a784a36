// The packets of ARP, as an interface sends and takes them; when it asks again is NeighbourTable's
// business. Source: RFC 826, RFC 5227.
#ifndef POLLUX_STACK_IP_ARP_SPEAKER_H_
#define POLLUX_STACK_IP_ARP_SPEAKER_H_

#include <cstdint>

#include "stack/ip/host_state.h"
#include "stack/wire/arp.h"

namespace pollux::ip {

class ArpSpeaker {
 public:
  // Not owned, outlives this.
  explicit ArpSpeaker(HostState* host) : host_(host) {}

  // What stands after the Ethernet header of a frame that came on `vlan`.
  void OnPacket(uint16_t vlan, const uint8_t* p, size_t length, transport::PollContext& context);
  // One request, to everyone or to `unicast` alone.
  void Solicit(const NeighbourAddress& target, const MacAddress* unicast,
               transport::PollContext& context);
  // Asks whether anyone has `own` (a probe names no sender, so that nobody's table is touched), and
  // tells everyone that it is this host's.
  void Probe(const GidEntry& own, transport::PollContext& context);
  void Announce(const GidEntry& own, transport::PollContext& context);

 private:
  void Send(const wire::ArpPacket& packet, const MacAddress& to, uint16_t vlan,
            transport::PollContext& context);

  HostState* host_;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_ARP_SPEAKER_H_
