// Answers to ping, over IPv4 and IPv6, at a bounded rate.
#ifndef POLLUX_STACK_IP_ECHO_RESPONDER_H_
#define POLLUX_STACK_IP_ECHO_RESPONDER_H_

#include <cstdint>

#include "stack/ip/host_state.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::ip {

// Answers go to where the question came from, so that a stranger's takes no place among the
// neighbours.
class EchoResponder {
 public:
  static constexpr uint32_t kBurst = 64;            // replies at once
  static constexpr uint64_t kIntervalNs = 100'000;  // and one more for each of these

  // Not owned, outlives this.
  explicit EchoResponder(HostState* host) : host_(host) {}

  // The ICMP message of exactly `length` bytes under `ip`, whose destination is one of the
  // interface's addresses. For IPv6 the checksum has been verified.
  void OnIcmp(const wire::EthernetHeader& ethernet, const wire::Ipv4Header& ip, const uint8_t* p,
              size_t length, transport::PollContext& context);
  void OnIcmpv6(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip, const uint8_t* p,
                size_t length, transport::PollContext& context);

 private:
  // Whether an answer may be sent; counts when not.
  bool MayAnswer(const Gid& to, uint16_t vlan, uint64_t now_ns);

  HostState* host_;
  uint64_t paid_until_ns_ = 0;
  uint16_t identification_ = 0;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_ECHO_RESPONDER_H_
