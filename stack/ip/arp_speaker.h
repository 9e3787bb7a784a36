// Sends and processes an interface's ARP packets. NeighbourTable decides when a request is
// repeated. Source: RFC 826, RFC 5227.
#ifndef POLLUX_STACK_IP_ARP_SPEAKER_H_
#define POLLUX_STACK_IP_ARP_SPEAKER_H_

#include <cstdint>

#include "stack/ip/host_state.h"
#include "stack/wire/arp.h"

namespace pollux::ip {

class ArpSpeaker {
 public:
  // `host` is not owned and must outlive this object.
  explicit ArpSpeaker(HostState* host) : host_(host) {}

  // Processes what follows the Ethernet header of a frame received on `vlan`.
  void OnPacket(uint16_t vlan, const uint8_t* p, size_t length, transport::PollContext& context);
  // Sends one request, as a broadcast or to `unicast` only.
  void Solicit(const NeighbourAddress& target, const MacAddress* unicast,
               transport::PollContext& context);
  // Probe() asks whether another host has `own`; it names no sender address, so it changes no
  // host's ARP table. Announce() tells all hosts that this host has it.
  void Probe(const GidEntry& own, transport::PollContext& context);
  void Announce(const GidEntry& own, transport::PollContext& context);

 private:
  void Send(const wire::ArpPacket& packet, const MacAddress& to, uint16_t vlan,
            transport::PollContext& context);

  HostState* host_;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_ARP_SPEAKER_H_
