// Answers ping over IPv4 and IPv6, at a limited rate.
#ifndef POLLUX_STACK_IP_ECHO_RESPONDER_H_
#define POLLUX_STACK_IP_ECHO_RESPONDER_H_

#include <cstdint>

#include "stack/ip/host_state.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::ip {

// Replies go to the MAC address from which the request came, so that strangers take no entries of
// the neighbour table.
class EchoResponder {
 public:
  static constexpr uint32_t kBurst = 64;            // replies that may be sent at once
  static constexpr uint64_t kIntervalNs = 100'000;  // one more reply per interval

  // `host` is not owned and must outlive this object.
  explicit EchoResponder(HostState* host) : host_(host) {}

  // Handles the ICMP message of exactly `length` bytes that follows the header `ip`, whose
  // destination is one of the interface's addresses. For IPv6 the checksum has been verified.
  void OnIcmp(const wire::EthernetHeader& ethernet, const wire::Ipv4Header& ip, const uint8_t* p,
              size_t length, transport::PollContext& context);
  void OnIcmpv6(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip, const uint8_t* p,
                size_t length, transport::PollContext& context);

 private:
  // Returns whether a reply may be sent. Counts the request if not.
  bool MayAnswer(const Gid& to, uint16_t vlan, uint64_t now_ns);

  HostState* host_;
  uint64_t paid_until_ns_ = 0;
  uint16_t identification_ = 0;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_ECHO_RESPONDER_H_
