#include "stack/net/interface.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/wire/icmp.h"

namespace pollux::net {
namespace {

using transport::Drop;
using transport::PollContext;

constexpr uint16_t kLongestHeaders = 96;  // GRH 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4
constexpr uint8_t kDefaultHopLimit = 64;

bool IsUnicast(const MacAddress& mac) { return (mac[0] & 0x01) == 0 && mac != MacAddress{}; }

}  // namespace

absl::StatusOr<ibv_mtu> PathMtu(uint16_t mtu) {
  for (const ibv_mtu candidate :
       {IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512, IBV_MTU_256}) {
    if (mtu >= (128u << candidate) + kLongestHeaders) return candidate;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "an MTU of ", mtu, " bytes does not carry RoCE; the least is ", 256 + kLongestHeaders));
}

Interface::Interface(const InterfaceConfig& config)
    : config_(config),
      gid_(Gid::FromIpv4(config.address)),
      routes_(config.address, config.prefix_length, config.gateway),
      neighbours_(this) {}

absl::StatusOr<Gid> Interface::QueryGid(int index) const {
  if (index == 0) return gid_;
  return absl::InvalidArgumentError(absl::StrCat("GID index ", index, " is past the end: 1 entry"));
}

ibv_mtu Interface::active_mtu() const { return PathMtu(config_.mtu).value_or(IBV_MTU_256); }

bool Interface::IsOurs(const uint8_t* frame, const Gid& destination) const {
  return std::memcmp(frame + wire::ethernet::kDestination, config_.mac.data(),
                     config_.mac.size()) == 0 &&
         destination == gid_;
}

// ---- Frames that are not RoCE.

void Interface::OnFrame(rte_mbuf* frame, PollContext& context) {
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  const size_t length = frame->data_len;
  const std::optional<wire::EthernetHeader> ethernet = wire::ParseEthernet(bytes, length);
  if (frame->nb_segs != 1) {
    context.counters.Count(Drop::kScattered);
  } else if (!ethernet || !IsUnicast(ethernet->source)) {
    context.counters.Count(Drop::kTruncated);
  } else if (ethernet->destination != config_.mac && ethernet->destination != wire::kBroadcastMac) {
    context.counters.Count(Drop::kNotForUs);
  } else if (ethernet->vlan_tci) {
    context.counters.Count(Drop::kUnsupportedL3);
  } else if (ethernet->ether_type == wire::kEtherTypeArp) {
    OnArp(bytes + ethernet->bytes(), length - ethernet->bytes(), context);
  } else if (ethernet->ether_type == wire::kEtherTypeIpv4) {
    OnIpv4(*ethernet, bytes + ethernet->bytes(), length - ethernet->bytes(), context);
  } else {
    context.counters.Count(Drop::kUnsupportedL3);
  }
  rte_pktmbuf_free(frame);
}

void Interface::OnArp(const uint8_t* p, size_t length, PollContext& context) {
  ++counters_.arp_rcvd;
  const std::optional<wire::ArpPacket> arp = wire::ParseArp(p, length);
  const bool known_operation =
      arp && (arp->operation == wire::kArpRequest || arp->operation == wire::kArpReply);
  if (!known_operation || !IsUnicast(arp->sender_mac) || arp->sender_mac == config_.mac) {
    ++counters_.arp_ignored;
    return;
  }
  const bool request = arp->operation == wire::kArpRequest;
  if (arp->sender_address == config_.address) {
    ++counters_.arp_conflicts;
    conflict_ = arp->sender_mac;
    return;
  }
  // RFC 826: an entry is made only for who speaks to this host; who announces itself to everyone
  // (sender and target the same) only replaces what is known of it already.
  const bool to_us = arp->target_address == config_.address;
  const bool announcement = arp->target_address == arp->sender_address;
  const bool learned = (to_us || announcement) && routes_.IsNeighbour(arp->sender_address) &&
                       neighbours_.Learn(Gid::FromIpv4(arp->sender_address), arp->sender_mac,
                                         /*create=*/to_us && request,
                                         /*solicited=*/!request && !announcement, context);
  learned ? ++counters_.arp_learned : ++counters_.arp_ignored;
  if (request && to_us) {
    ++counters_.arp_replies_sent;
    SendArp({.operation = wire::kArpReply,
             .sender_mac = config_.mac,
             .sender_address = config_.address,
             .target_mac = arp->sender_mac,
             .target_address = arp->sender_address},
            arp->sender_mac, context);
  }
}

void Interface::OnIpv4(const wire::EthernetHeader& ethernet, const uint8_t* p, size_t length,
                       PollContext& context) {
  const std::optional<wire::Ipv4Header> ip = wire::ParseIpv4(p, length);
  if (!ip) {
    context.counters.Count(Drop::kBadIpHeader);
  } else if (ip->destination != config_.address || ethernet.destination != config_.mac) {
    context.counters.Count(Drop::kNotForUs);
  } else if (ip->IsFragment() || ip->protocol != wire::kIpProtocolIcmp) {
    context.counters.Count(Drop::kUnsupportedL3);
  } else {
    OnIcmp(ethernet, *ip, p, context);
  }
}

// Answered to where it came from, so that a stranger's echo takes no place among the neighbours.
void Interface::OnIcmp(const wire::EthernetHeader& ethernet, const wire::Ipv4Header& ip,
                       const uint8_t* p, PollContext& context) {
  const size_t icmp_bytes = ip.total_length - ip.header_bytes;
  const std::optional<wire::IcmpEcho> echo = wire::ParseIcmpEcho(p + ip.header_bytes, icmp_bytes);
  const bool from_one_host =
      ip.source != config_.address && ip.source >> 24 != 0 && ip.source < 0xE0000000;
  if (!echo || echo->type != wire::kIcmpEchoRequest || !from_one_host) {
    ++counters_.echo_ignored;
    return;
  }
  if (!TakeEchoToken(context.now_ns)) {
    ++counters_.echo_limited;
    return;
  }
  rte_mbuf* reply = context.egress.Allocate();
  if (reply == nullptr) return;
  const size_t headers = wire::kEthernetBytes + wire::kIpv4Bytes;
  uint8_t* out = nullptr;
  if (headers + icmp_bytes <= rte_pktmbuf_tailroom(reply)) {
    out = reinterpret_cast<uint8_t*>(
        rte_pktmbuf_append(reply, static_cast<uint16_t>(headers + icmp_bytes)));
  }
  if (out == nullptr) {
    ++counters_.echo_ignored;
    rte_pktmbuf_free(reply);
    return;
  }
  wire::EmitEthernet({.destination = ethernet.source,
                      .source = config_.mac,
                      .vlan_tci = std::nullopt,
                      .ether_type = wire::kEtherTypeIpv4},
                     out);
  wire::EmitIpv4({.tos = ip.tos,
                  .total_length = static_cast<uint16_t>(wire::kIpv4Bytes + icmp_bytes),
                  .identification = identification_++,
                  .protocol = wire::kIpProtocolIcmp,
                  .source = config_.address,
                  .destination = ip.source},
                 out + wire::kEthernetBytes);
  std::memcpy(out + headers, p + ip.header_bytes, icmp_bytes);
  wire::EmitIcmpEcho(
      {.type = wire::kIcmpEchoReply, .identifier = echo->identifier, .sequence = echo->sequence},
      out + headers, icmp_bytes);
  ++counters_.echo_replies_sent;
  context.egress.Push(reply, context.now_ns);
}

bool Interface::TakeEchoToken(uint64_t now_ns) {
  // The bucket is full when its debt lies in the past.
  const uint64_t debt = std::max(echo_paid_until_ns_, now_ns);
  if (debt - now_ns > (kEchoBurst - 1) * kEchoIntervalNs) return false;
  echo_paid_until_ns_ = debt + kEchoIntervalNs;
  return true;
}

// ---- Neighbours.

void Interface::SendArp(const wire::ArpPacket& packet, const MacAddress& to, PollContext& context) {
  rte_mbuf* frame = context.egress.Allocate();
  if (frame == nullptr) return;
  constexpr uint16_t kBytes = wire::kEthernetBytes + wire::kArpBytes;
  auto* out = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, kBytes));
  if (out == nullptr) {
    context.counters.Count(Drop::kNoBuffer);
    rte_pktmbuf_free(frame);
    return;
  }
  wire::EmitEthernet({.destination = to,
                      .source = config_.mac,
                      .vlan_tci = std::nullopt,
                      .ether_type = wire::kEtherTypeArp},
                     out);
  wire::EmitArp(packet, out + wire::kEthernetBytes);
  context.egress.Push(frame, context.now_ns);
}

void Interface::Solicit(const Gid& target, const MacAddress* unicast, PollContext& context) {
  ++counters_.arp_requests_sent;
  SendArp({.operation = wire::kArpRequest,
           .sender_mac = config_.mac,
           .sender_address = config_.address,
           .target_mac = {},
           .target_address = target.Ipv4()},
          unicast == nullptr ? wire::kBroadcastMac : *unicast, context);
}

void Interface::Resolve(const Gid& destination, PollContext& context,
                        absl::AnyInvocable<void(absl::Status)> done) {
  const absl::StatusOr<Gid> next_hop = routes_.NextHop(destination);
  if (!next_hop.ok()) {
    done(next_hop.status());
    return;
  }
  neighbours_.Resolve(*next_hop, context, std::move(done));
}

absl::StatusOr<verbs::AddressHandle> Interface::MakeAddressHandle(const ibv_ah_attr& attr,
                                                                  PollContext& context) {
  if (attr.is_global == 0) {
    return absl::InvalidArgumentError(
        "address handle: is_global is 0; RoCE needs the global routing header (grh.dgid)");
  }
  const absl::StatusOr<Gid> source = QueryGid(attr.grh.sgid_index);
  if (!source.ok()) return source.status();
  Gid destination;
  std::memcpy(destination.raw.data(), attr.grh.dgid.raw, destination.raw.size());
  const absl::StatusOr<Gid> next_hop = routes_.NextHop(destination);
  if (!next_hop.ok()) return next_hop.status();
  const verbs::LinkAddress* link = neighbours_.Acquire(*next_hop, context);
  if (link == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("address handle to ", FormatAddress(destination), ": all ",
                     NeighbourTable::kMaxNeighbours, " neighbours are in use"));
  }
  verbs::AddressHandle handle{};
  handle.source = *source;
  handle.destination = destination;
  handle.source_mac = config_.mac;
  handle.link = link;
  handle.hop_limit = attr.grh.hop_limit == 0 ? kDefaultHopLimit : attr.grh.hop_limit;
  handle.traffic_class = attr.grh.traffic_class;
  handle.flow_label = attr.grh.flow_label;
  return handle;
}

void Interface::SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                                 PollContext& context) {
  neighbours_.Wait(link, frame, context);
}

// ---- Time.

uint64_t Interface::deadline_ns() const {
  return std::min(claim_ == Claim::kDone ? NeighbourTable::kNever : claim_deadline_ns_,
                  neighbours_.deadline_ns());
}

void Interface::OnDeadline(PollContext& context) {
  neighbours_.OnDeadline(context);
  if (claim_ == Claim::kDone || context.now_ns < claim_deadline_ns_) return;
  const bool probe = claim_ == Claim::kNotBegun;
  claim_ = probe ? Claim::kProbing : Claim::kDone;
  claim_deadline_ns_ = context.now_ns + kProbeNs;
  if (!probe && conflict_) return;
  // RFC 5227: a probe names no sender, so that nobody's table is touched; the announcement does.
  ++counters_.arp_requests_sent;
  SendArp({.operation = wire::kArpRequest,
           .sender_mac = config_.mac,
           .sender_address = probe ? 0 : config_.address,
           .target_mac = {},
           .target_address = config_.address},
          wire::kBroadcastMac, context);
}

}  // namespace pollux::net
