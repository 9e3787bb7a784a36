#include "stack/ip/interface.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/igmp.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/mld.h"
#include "stack/wire/multicast.h"

namespace pollux::ip {
namespace {

using transport::Drop;
using transport::PollContext;

constexpr uint16_t kLongestHeaders = 96;  // GRH 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4
constexpr uint8_t kDefaultHopLimit = 64;
constexpr uint8_t kLinkLocalPrefix = 64;
constexpr int kClassPriorityShift = 5;  // of a traffic class: its class selector
constexpr uint8_t kMaxPriority = 7;
constexpr size_t kHopByHopUnit = 8;

// What the interface has in all: its link-local addresses first, as Linux has them.
std::vector<InterfaceAddress> AllAddresses(const InterfaceConfig& config) {
  std::vector<InterfaceAddress> all;
  const auto add_link_local = [&](uint16_t vlan) {
    const InterfaceAddress own{.address = wire::LinkLocalAddress(config.mac),
                               .prefix_length = kLinkLocalPrefix,
                               .vlan = vlan};
    if (std::ranges::find(all, own) == all.end()) all.push_back(own);
  };
  if (config.link_local) add_link_local(kNoVlan);
  for (const InterfaceAddress& address : config.addresses) {
    if (config.link_local) add_link_local(address.vlan);
    all.push_back(address);
  }
  return all;
}

// Whether the group's scope is the interface or the link, so that no router forwards packets to it
// (RFC 4291 section 2.7).
bool StaysOnLink(const Gid& group) { return !group.IsIpv4() && (group.raw[1] & 0x0F) <= 2; }

bool HasMac(const uint8_t* frame, const MacAddress& mac) {
  return std::memcmp(frame + wire::ethernet::kDestination, mac.data(), mac.size()) == 0;
}

uint16_t VlanOf(const uint8_t* frame) {
  if (LoadBe16(frame + wire::ethernet::kType) != wire::kEtherTypeVlan) return kNoVlan;
  return LoadBe16(frame + wire::ethernet::kVlanTci) & wire::kVlanIdMask;
}

absl::Status Mismatch(const Gid& source, uint32_t index, const Gid& destination) {
  const auto version = [](const Gid& gid) { return gid.IsIpv4() ? 4 : 6; };
  return absl::InvalidArgumentError(
      absl::StrCat("address handle: GID index ", index, " (", FormatAddress(source), ") is IPv",
                   version(source), ", ", FormatAddress(destination), " is IPv",
                   version(destination), "; give the sgid_index of an address of that version"));
}

}  // namespace

absl::StatusOr<ibv_mtu> PathMtu(uint16_t mtu) {
  for (const ibv_mtu candidate :
       {IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512, IBV_MTU_256}) {
    if (mtu >= (128u << candidate) + kLongestHeaders) return candidate;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "an MTU of ", mtu, " bytes is too small for RoCE; the minimum is ", 256 + kLongestHeaders));
}

absl::Status CheckConfig(const InterfaceConfig& config) {
  for (const InterfaceAddress& own : config.addresses) {
    const std::string text = FormatInterfaceAddress(own);
    const int bits = own.address.IsIpv4() ? 32 : 128;
    if (own.prefix_length > bits) {
      return absl::InvalidArgumentError(
          absl::StrCat("address ", text, ": the prefix length must be 0 to ", bits));
    }
    if (!IsOneHost(own.address) || IsNetworkOrBroadcast(own)) {
      return absl::InvalidArgumentError(
          absl::StrCat("address ", text, " is not the address of one host"));
    }
    if (own.vlan > kMaxVlan) {
      return absl::InvalidArgumentError(
          absl::StrCat("address ", text, ": VLAN IDs are 1 to ", kMaxVlan));
    }
    if (std::ranges::count(config.addresses, own) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("address ", text, " is given twice"));
    }
  }
  for (const Gid& gateway : config.gateways) {
    if (!IsOneHost(gateway)) {
      return absl::InvalidArgumentError(
          absl::StrCat("gateway ", FormatAddress(gateway), " is not the address of one host"));
    }
    // Who has a prefix of one address only reaches its gateway by being told so.
    const bool reachable = gateway.IsLinkLocal() ||
                           std::ranges::any_of(config.addresses, [&](const InterfaceAddress& own) {
                             const bool alone =
                                 own.prefix_length == (own.address.IsIpv4() ? 32 : 128);
                             return own.address.IsIpv4() == gateway.IsIpv4() &&
                                    (alone || InPrefix(gateway, own.address, own.prefix_length));
                           });
    if (!reachable) {
      return absl::InvalidArgumentError(absl::StrCat(
          "gateway ", FormatAddress(gateway), " is not in the subnet of any address of the port"));
    }
  }
  const size_t count = AllAddresses(config).size();
  if (count > GidTable::kMaxGids) {
    return absl::InvalidArgumentError(absl::StrCat(count,
                                                   " addresses, link-local ones included; at most ",
                                                   GidTable::kMaxGids, " are possible"));
  }
  return absl::OkStatus();
}

Interface::Interface(const InterfaceConfig& config, HostInterface* kernel)
    : config_(config),
      kernel_(kernel),
      port_mtu_(config.mtu),
      host_(this),
      arp_(&host_),
      nd_(&host_),
      echo_(&host_),
      groups_(&host_, config.groups, /*reports=*/kernel == nullptr) {
  if (kernel_ != nullptr) {
    claim_ = Claim::kDone;
    kernel_poll_ns_ = 0;
    TakeKernelState();
    return;
  }
  const std::vector<InterfaceAddress> addresses = AllAddresses(config);
  std::vector<GidEntry> gids;
  for (const InterfaceAddress& own : addresses) gids.push_back({own.address, own.vlan});
  std::vector<Route> routes;
  for (const Gid& gateway : config.gateways) {
    const std::vector<Route> defaults = DefaultRoutes(gateway, addresses);
    routes.insert(routes.end(), defaults.begin(), defaults.end());
  }
  host_.SetMac(config.mac);
  host_.answers = config.answers;
  if (!config.answers) claim_ = Claim::kDone;
  host_.gids.Assign(gids);
  host_.routes = Routes(addresses, std::move(routes));
}

absl::StatusOr<Gid> Interface::QueryGid(int index) const {
  const auto size = static_cast<int>(host_.gids.size());
  if (index < 0 || index >= size) {
    return absl::InvalidArgumentError(absl::StrCat("GID index ", index, " is past the end: ", size,
                                                   size == 1 ? " entry" : " entries"));
  }
  const Gid gid = host_.gids.at(static_cast<uint32_t>(index)).gid;
  if (gid.IsZero()) {
    return absl::InvalidArgumentError(
        absl::StrCat("GID index ", index, " is empty: its address was removed"));
  }
  return gid;
}

absl::StatusOr<ibv_gid_entry> Interface::QueryGidEx(uint32_t index) const {
  const absl::StatusOr<Gid> gid = QueryGid(static_cast<int>(std::min<uint32_t>(index, INT32_MAX)));
  if (!gid.ok()) return gid.status();
  ibv_gid_entry entry{};
  std::copy(gid->raw.begin(), gid->raw.end(), entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  if (kernel_ != nullptr) entry.ndev_ifindex = kernel_->state().index;
  return entry;
}

absl::StatusOr<uint8_t> Interface::SourceIndex(const Gid& destination) const {
  if (destination.IsMulticast()) {
    if (const std::optional<uint8_t> index = GroupSourceIndex(destination)) return *index;
    return absl::NotFoundError(absl::StrCat("no address to send to ", FormatAddress(destination),
                                            " from: this port has no IPv",
                                            destination.IsIpv4() ? "4" : "6", " address"));
  }
  if (const std::optional<uint8_t> own = GidIndex(destination)) return *own;
  const absl::StatusOr<Routes::Hop> hop = host_.routes.Find(destination);
  if (!hop.ok()) return hop.status();
  const int index = host_.gids.Find(hop->source, hop->vlan);
  if (index < 0) {
    return absl::NotFoundError(absl::StrCat("no route to ", FormatAddress(destination), ": ",
                                            FormatAddress(hop->source),
                                            " is not in the GID table"));
  }
  return static_cast<uint8_t>(index);
}

bool Interface::IsDeprecated(const GidEntry& own) const {
  return std::ranges::any_of(config_.addresses, [&own](const InterfaceAddress& address) {
    return address.deprecated && address.address == own.gid && address.vlan == own.vlan;
  });
}

// The first address that is not link-local. For a group that stays on the link: the first
// link-local address on the same VLAN, if there is one. In both cases a deprecated address counts
// only if there is no other (RFC 6724 section 5, rules 2 and 3).
std::optional<uint8_t> Interface::GroupSourceIndex(const Gid& group) const {
  const auto find = [&](auto&& suits) {
    std::optional<uint8_t> deprecated;
    for (uint32_t i = 0; i < host_.gids.size(); ++i) {
      const GidEntry own = host_.gids.at(i);
      if (own.gid.IsZero() || own.gid.IsIpv4() != group.IsIpv4()) continue;
      if (!suits(own)) continue;
      const std::optional<uint8_t> index = static_cast<uint8_t>(i);
      if (!IsDeprecated(own)) return index;
      if (!deprecated) deprecated = index;
    }
    return deprecated;
  };
  const std::optional<uint8_t> wide =
      find([](const GidEntry& own) { return !own.gid.IsLinkLocal(); });
  if (wide && !StaysOnLink(group)) return wide;
  const uint16_t vlan = wide ? GidVlan(*wide) : kNoVlan;
  const std::optional<uint8_t> narrow =
      find([vlan](const GidEntry& own) { return own.gid.IsLinkLocal() && own.vlan == vlan; });
  if (narrow || wide) return narrow ? narrow : wide;
  return find([](const GidEntry&) { return true; });
}

std::optional<uint8_t> Interface::GidIndex(const Gid& address) const {
  for (uint32_t i = 0; i < host_.gids.size(); ++i) {
    if (host_.gids.at(i).gid == address && !address.IsZero()) return static_cast<uint8_t>(i);
  }
  return std::nullopt;
}

ibv_mtu Interface::active_mtu() const { return PathMtu(config_.mtu).value_or(IBV_MTU_256); }

bool Interface::IsOurs(const uint8_t* frame, const Gid& destination) const {
  return HasMac(frame, host_.mac) && host_.gids.Contains(destination, VlanOf(frame));
}

bool Interface::LookUpOurs(const wire::RocePacket& packet) {
  if (!IsOurs(packet.frame, packet.destination())) return false;
  ours_ = wire::AddressWords(packet);
  return true;
}

bool Interface::IsOfGroup(const uint8_t* frame, const Gid& destination) const {
  // A switch may send a group's packet to each member's own MAC address (RFC 6085).
  return destination.IsMulticast() &&
         (HasMac(frame, wire::MulticastMac(destination)) || HasMac(frame, host_.mac)) &&
         host_.gids.HasVlan(VlanOf(frame));
}

// ---- Frames that are not RoCE.

bool Interface::TakesMac(const MacAddress& destination) const {
  // What a group's frame is about, its IP header tells.
  return destination == host_.mac || !IsUnicast(destination);
}

void Interface::OnFrame(rte_mbuf* frame, PollContext& context) {
  if (kernel_ != nullptr) {
    ++host_.counters.left_to_kernel;
    rte_pktmbuf_free(frame);
    return;
  }
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  const size_t length = frame->data_len;
  const std::optional<wire::EthernetHeader> ethernet = wire::ParseEthernet(bytes, length);
  if (frame->nb_segs != 1) {
    context.counters.Count(Drop::kScattered);
  } else if (!ethernet || !IsUnicast(ethernet->source)) {
    context.counters.Count(Drop::kTruncated);
  } else if (!TakesMac(ethernet->destination)) {
    context.counters.Count(Drop::kNotForUs);
  } else {
    const uint8_t* l3 = bytes + ethernet->bytes();
    const size_t l3_bytes = length - ethernet->bytes();
    switch (ethernet->ether_type) {
      case wire::kEtherTypeArp:
        arp_.OnPacket(ip::VlanOf(*ethernet), l3, l3_bytes, context);
        break;
      case wire::kEtherTypeIpv4:
        OnIpv4(*ethernet, l3, l3_bytes, context);
        break;
      case wire::kEtherTypeIpv6:
        OnIpv6(*ethernet, l3, l3_bytes, context);
        break;
      default:
        context.counters.Count(Drop::kUnsupportedL3);
    }
  }
  rte_pktmbuf_free(frame);
}

bool Interface::IsFor(const wire::EthernetHeader& ethernet, const Gid& destination) const {
  const uint16_t vlan = ip::VlanOf(ethernet);
  if (!destination.IsMulticast()) {
    return ethernet.destination == host_.mac && host_.gids.Contains(destination, vlan);
  }
  return (ethernet.destination == wire::MulticastMac(destination) ||
          ethernet.destination == host_.mac) &&
         (destination == wire::kAllHostsIpv4 || destination == wire::kAllNodesIpv6 ||
          groups_.Contains(destination, vlan));
}

void Interface::OnIpv4(const wire::EthernetHeader& ethernet, const uint8_t* p, size_t length,
                       PollContext& context) {
  const std::optional<wire::Ipv4Header> ip = wire::ParseIpv4(p, length);
  if (!ip) return context.counters.Count(Drop::kBadIpHeader);
  const Gid destination = Gid::FromIpv4(ip->destination);
  if (!IsFor(ethernet, destination)) return context.counters.Count(Drop::kNotForUs);
  const uint8_t* l4 = p + ip->header_bytes;
  const size_t l4_bytes = ip->total_length - ip->header_bytes;
  if (ip->IsFragment()) {
    context.counters.Count(Drop::kUnsupportedL3);
  } else if (ip->protocol == wire::kIpProtocolIcmp && !destination.IsMulticast()) {
    echo_.OnIcmp(ethernet, *ip, l4, l4_bytes, context);
  } else if (ip->protocol == wire::kIpProtocolIgmp) {
    // From its own link only (RFC 3376 section 4): a router passes no TTL of 1 on.
    const auto query = ip->ttl == 1 ? wire::ParseIgmpQuery(l4, l4_bytes) : std::nullopt;
    if (query) return groups_.OnQuery(*query, ip::VlanOf(ethernet), context);
    context.counters.Count(Drop::kUnsupportedL3);
  } else {
    context.counters.Count(Drop::kUnsupportedL3);
  }
}

void Interface::OnIpv6(const wire::EthernetHeader& ethernet, const uint8_t* p, size_t length,
                       PollContext& context) {
  std::optional<wire::Ipv6Header> ip = wire::ParseIpv6(p, length);
  if (!ip) return context.counters.Count(Drop::kBadIpHeader);
  if (!IsFor(ethernet, ip->destination)) return context.counters.Count(Drop::kNotForUs);
  const uint8_t* l4 = p + wire::kIpv6Bytes;
  size_t l4_bytes = ip->payload_length;
  // MLD stands behind such a header; other extension headers have no business here.
  if (ip->next_header == wire::kIpProtocolHopByHop) {
    if (l4_bytes < kHopByHopUnit) return context.counters.Count(Drop::kTruncated);
    const size_t options_bytes = (size_t{l4[1]} + 1) * kHopByHopUnit;
    if (l4_bytes < options_bytes) return context.counters.Count(Drop::kTruncated);
    ip->next_header = l4[0];
    l4 += options_bytes;
    l4_bytes -= options_bytes;
  }
  if (ip->next_header != wire::kIpProtocolIcmpV6) {
    return context.counters.Count(Drop::kUnsupportedL3);
  }
  if (!wire::Icmpv6ChecksumIsValid(p, l4, l4_bytes)) {
    return context.counters.Count(Drop::kBadIpHeader);
  }
  OnIcmpv6(ethernet, *ip, l4, l4_bytes, context);
}

void Interface::OnIcmpv6(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip,
                         const uint8_t* p, size_t length, PollContext& context) {
  switch (p[wire::icmpv6::kType]) {
    case wire::kIcmpv6NeighbourSolicitation:
    case wire::kIcmpv6NeighbourAdvertisement:
      return nd_.OnMessage(ethernet, ip, p, length, context);
    case wire::kIcmpv6EchoRequest:
    case wire::kIcmpv6EchoReply:
      if (ip.destination.IsMulticast()) return context.counters.Count(Drop::kNotForUs);
      return echo_.OnIcmpv6(ethernet, ip, p, length, context);
    case wire::kIcmpv6MldQuery: {
      // RFC 3810 section 5.1.14: from a router of this link.
      const bool from_link = ip.hop_limit == 1 && ip.source.IsLinkLocal();
      const auto query = from_link ? wire::ParseMldQuery(p, length) : std::nullopt;
      if (query) return groups_.OnQuery(*query, ip::VlanOf(ethernet), context);
      return context.counters.Count(Drop::kUnsupportedL3);
    }
    default:
      context.counters.Count(Drop::kUnsupportedL3);
  }
}

// ---- Neighbours.

void Interface::Solicit(const NeighbourAddress& target, const MacAddress* unicast,
                        PollContext& context) {
  if (kernel_ != nullptr) {
    kernel_->Solicit(target.gid);
    kernel_poll_ns_ = context.now_ns;  // it may know the answer already
    host_.has_new_deadline = true;
    // Asked like this, Linux sends its solicitation from a link-local address alone, which there
    // may not be, or not yet: duplicate address detection takes seconds. The answer is the
    // kernel's.
    if (!target.gid.IsIpv4()) nd_.Solicit(target, unicast, context);
    return;
  }
  target.gid.IsIpv4() ? arp_.Solicit(target, unicast, context)
                      : nd_.Solicit(target, unicast, context);
}

void Interface::Resolve(const Gid& destination, PollContext& context,
                        absl::AnyInvocable<void(absl::Status)> done) {
  if (GidIndex(destination)) {
    done(absl::OkStatus());
    return;
  }
  const absl::StatusOr<Routes::Hop> hop = host_.routes.Find(destination);
  if (!hop.ok()) {
    done(hop.status());
    return;
  }
  host_.neighbours.Resolve({hop->address, hop->vlan}, context, std::move(done));
}

absl::StatusOr<verbs::AddressHandle> Interface::MakeAddressHandle(const ibv_ah_attr& attr,
                                                                  PollContext& context) {
  if (attr.is_global == 0) {
    return absl::InvalidArgumentError(
        "address handle: is_global is 0; RoCE needs the global routing header (grh.dgid)");
  }
  const absl::StatusOr<Gid> source = QueryGid(attr.grh.sgid_index);
  if (!source.ok()) return source.status();
  const uint16_t vlan = GidVlan(attr.grh.sgid_index);
  Gid destination;
  std::memcpy(destination.raw.data(), attr.grh.dgid.raw, destination.raw.size());
  if (source->IsIpv4() != destination.IsIpv4()) {
    return Mismatch(*source, attr.grh.sgid_index, destination);
  }
  const verbs::LinkAddress* link = nullptr;
  if (destination.IsMulticast()) {
    link = host_.neighbours.AcquirePermanent({destination, vlan}, wire::MulticastMac(destination),
                                             context);
  } else if (host_.gids.Contains(destination, vlan)) {
    link = host_.neighbours.AcquirePermanent({destination, vlan}, host_.mac, context);
  } else {
    const absl::StatusOr<Routes::Hop> hop = host_.routes.Find(destination, vlan);
    if (!hop.ok()) return hop.status();
    link = host_.neighbours.Acquire({hop->address, vlan}, context);
  }
  if (link == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("address handle to ", FormatAddress(destination), ": all ",
                     NeighbourTable::kMaxNeighbours, " neighbours are in use"));
  }
  verbs::AddressHandle handle{};
  handle.source = *source;
  handle.destination = destination;
  if (vlan != kNoVlan) {
    const int priority = attr.sl != 0 ? std::min(attr.sl, kMaxPriority)
                                      : attr.grh.traffic_class >> kClassPriorityShift;
    handle.vlan_tci = static_cast<uint16_t>(priority << wire::kVlanPriorityShift | vlan);
  }
  handle.own_link = &host_.own_link;
  handle.link = link;
  handle.hop_limit = attr.grh.hop_limit == 0 ? kDefaultHopLimit : attr.grh.hop_limit;
  handle.traffic_class = attr.grh.traffic_class;
  handle.flow_label = attr.grh.flow_label;
  return handle;
}

void Interface::SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                                 PollContext& context) {
  host_.neighbours.Wait(link, frame, context);
}

void Interface::Suspect(const verbs::LinkAddress* link, PollContext& context) {
  host_.neighbours.Suspect(link, context);
}

// ---- Groups.

absl::Status Interface::JoinMulticast(const Gid& group, PollContext& context, uint16_t vlan) {
  const bool first = !groups_.Contains(group, vlan);
  absl::Status status = groups_.Join(group, vlan, context);
  if (!status.ok() || kernel_ == nullptr || !first) return status;
  status = kernel_->Join(group);
  if (!status.ok()) groups_.Leave(group, vlan, context).IgnoreError();
  return status;
}

absl::Status Interface::LeaveMulticast(const Gid& group, PollContext& context, uint16_t vlan) {
  const absl::Status status = groups_.Leave(group, vlan, context);
  if (!status.ok() || kernel_ == nullptr || groups_.Contains(group, vlan)) return status;
  return kernel_->Leave(group);
}

// ---- The kernel.

void Interface::TakeKernelState() {
  const KernelState& state = kernel_->state();
  config_.mac = state.mac;
  host_.SetMac(state.mac);
  config_.mtu = std::min(port_mtu_, state.mtu);
  config_.addresses = state.addresses;
  std::vector<GidEntry> gids;
  for (const InterfaceAddress& own : state.addresses) gids.push_back({own.address, own.vlan});
  host_.gids.Assign(gids);
  ours_ = {};
  ++address_version_;
  host_.routes = Routes(state.addresses, state.routes);
}

void Interface::FollowKernel(PollContext& context) {
  found_.clear();
  if (kernel_->Poll(&found_)) {
    TakeKernelState();
    host_.neighbours.TakeOwn(
        [this](const NeighbourAddress& address) {
          return host_.gids.Contains(address.gid, address.vlan);
        },
        host_.mac, context);
  }
  for (const KernelNeighbour& neighbour : found_) {
    host_.neighbours.Learn({neighbour.address}, neighbour.mac, /*create=*/false, Evidence::kKernel,
                           context);
  }
  kernel_poll_ns_ = context.now_ns + HostInterface::kPollNs;
}

// ---- Time.

void Interface::OnDeadline(PollContext& context) {
  host_.has_new_deadline = true;
  host_.neighbours.OnDeadline(context);
  groups_.OnDeadline(context);
  if (context.now_ns >= kernel_poll_ns_) FollowKernel(context);
  if (claim_ == Claim::kDone || context.now_ns < claim_deadline_ns_) return;
  if (claim_ == Claim::kProbing) {
    claim_ = Claim::kDone;
    return AnnounceAll(context);
  }
  JoinOwnGroups(context);
  ProbeAll(context);
}

void Interface::OnLinkUp(PollContext& context) {
  if (kernel_ != nullptr) return;
  groups_.ReportAgain(context);
  if (config_.answers && claim_ != Claim::kNotBegun) ProbeAll(context);
  host_.has_new_deadline = true;
}

// A neighbour's solicitation goes to the group of the address that it asks for.
void Interface::JoinOwnGroups(PollContext& context) {
  for (uint32_t i = 0; i < host_.gids.size(); ++i) {
    const GidEntry own = host_.gids.at(i);
    // There is room for the groups of a full GID table.
    if (!own.gid.IsIpv4()) {
      groups_.Join(wire::SolicitedNodeGroup(own.gid), own.vlan, context).IgnoreError();
    }
  }
}

void Interface::ProbeAll(PollContext& context) {
  claim_ = Claim::kProbing;
  claim_deadline_ns_ = context.now_ns + kProbeNs;
  host_.claimed = 0;
  for (uint32_t i = 0; i < host_.gids.size(); ++i) {
    const GidEntry own = host_.gids.at(i);
    own.gid.IsIpv4() ? arp_.Probe(own, context) : nd_.Probe(own, context);
  }
}

void Interface::AnnounceAll(PollContext& context) {
  for (uint32_t i = 0; i < host_.gids.size(); ++i) {
    const GidEntry own = host_.gids.at(i);
    if ((host_.claimed >> i & 1) != 0) continue;
    own.gid.IsIpv4() ? arp_.Announce(own, context) : nd_.Announce(own, context);
  }
}

}  // namespace pollux::ip
