#include "stack/ip/echo_responder.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "stack/wire/icmp.h"
#include "stack/wire/icmpv6.h"

namespace pollux::ip {

using transport::PollContext;

bool EchoResponder::MayAnswer(const Gid& to, uint16_t vlan, uint64_t now_ns) {
  if (!host_->answers || !IsOneHost(to) || host_->gids.Contains(to, vlan)) {
    ++host_->counters.echo_ignored;
    return false;
  }
  // A bucket of tokens, full when its debt lies in the past.
  const uint64_t debt = std::max(paid_until_ns_, now_ns);
  if (debt - now_ns > (kBurst - 1) * kIntervalNs) {
    ++host_->counters.echo_limited;
    return false;
  }
  paid_until_ns_ = debt + kIntervalNs;
  return true;
}

void EchoResponder::OnIcmp(const wire::EthernetHeader& ethernet, const wire::Ipv4Header& ip,
                           const uint8_t* p, size_t length, PollContext& context) {
  const std::optional<wire::IcmpEcho> echo = wire::ParseIcmpEcho(p, length);
  if (!echo || echo->type != wire::kIcmpEchoRequest) {
    ++host_->counters.echo_ignored;
    return;
  }
  const uint16_t vlan = VlanOf(ethernet);
  if (!MayAnswer(Gid::FromIpv4(ip.source), vlan, context.now_ns)) return;
  const OutFrame frame = BeginFrame(*host_, ethernet.source, vlan, wire::kEtherTypeIpv4,
                                    wire::kIpv4Bytes + length, context);
  if (frame.l3 == nullptr) return;
  wire::EmitIpv4({.tos = ip.tos,
                  .total_length = static_cast<uint16_t>(wire::kIpv4Bytes + length),
                  .identification = identification_++,
                  .protocol = wire::kIpProtocolIcmp,
                  .source = ip.destination,
                  .destination = ip.source},
                 frame.l3);
  uint8_t* reply = frame.l3 + wire::kIpv4Bytes;
  std::memcpy(reply, p, length);
  wire::EmitIcmpEcho(
      {.type = wire::kIcmpEchoReply, .identifier = echo->identifier, .sequence = echo->sequence},
      reply, length);
  ++host_->counters.echo_replies_sent;
  SendFrame(frame, context);
}

void EchoResponder::OnIcmpv6(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip,
                             const uint8_t* p, size_t length, PollContext& context) {
  const std::optional<wire::IcmpEcho> echo = wire::ParseIcmpv6Echo(p, length);
  if (!echo || echo->type != wire::kIcmpv6EchoRequest) {
    ++host_->counters.echo_ignored;
    return;
  }
  const uint16_t vlan = VlanOf(ethernet);
  if (!MayAnswer(ip.source, vlan, context.now_ns)) return;
  const OutFrame frame = BeginFrame(*host_, ethernet.source, vlan, wire::kEtherTypeIpv6,
                                    wire::kIpv6Bytes + length, context);
  if (frame.l3 == nullptr) return;
  wire::EmitIpv6({.traffic_class = ip.traffic_class,
                  .flow_label = ip.flow_label,
                  .payload_length = static_cast<uint16_t>(length),
                  .next_header = wire::kIpProtocolIcmpV6,
                  .source = ip.destination,
                  .destination = ip.source},
                 frame.l3);
  uint8_t* reply = frame.l3 + wire::kIpv6Bytes;
  std::memcpy(reply, p, length);
  wire::EmitIcmpv6Echo(
      {.type = wire::kIcmpv6EchoReply, .identifier = echo->identifier, .sequence = echo->sequence},
      frame.l3, reply, length);
  ++host_->counters.echo_replies_sent;
  SendFrame(frame, context);
}

}  // namespace pollux::ip
