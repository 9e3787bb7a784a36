#include "stack/kernel/kernel_interface.h"

#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"

namespace pollux::kernel {
namespace {

using Value = std::span<const uint8_t>;

// States in which a neighbour's link-layer address is good to use (linux/neighbour.h).
constexpr uint16_t kUsable =
    NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
constexpr uint32_t kPollsPerTakeOver = 20;  // of the RoCE port: every 100 ms
constexpr size_t kIpv4Bytes = 4;
constexpr size_t kIpv6Bytes = 16;

template <class Body>
const Body& BodyOf(const nlmsghdr& message) {
  return *static_cast<const Body*>(NLMSG_DATA(&message));
}

// Nothing when the message is too short for its structure.
template <class Body>
const Body* Find(const nlmsghdr& message) {
  return message.nlmsg_len >= NLMSG_LENGTH(sizeof(Body)) ? &BodyOf<Body>(message) : nullptr;
}

template <class Body, class Take>
void Attributes(const nlmsghdr& message, Take take) {
  const size_t before = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(Body)));
  if (message.nlmsg_len <= before) return;
  io::ForEachAttribute(reinterpret_cast<const uint8_t*>(&message) + before,
                       message.nlmsg_len - before, take);
}

std::optional<Gid> ToGid(Value value) {
  if (value.size() == kIpv4Bytes) return Gid::FromIpv4(LoadBe32(value.data()));
  if (value.size() != kIpv6Bytes) return std::nullopt;
  Gid gid;
  std::copy(value.begin(), value.end(), gid.raw.begin());
  return gid;
}

std::optional<MacAddress> ToMac(Value value) {
  MacAddress mac;
  if (value.size() != mac.size()) return std::nullopt;
  std::copy(value.begin(), value.end(), mac.begin());
  return mac;
}

uint32_t ToU32(Value value) {
  uint32_t number = 0;
  if (value.size() == sizeof number) std::memcpy(&number, value.data(), sizeof number);
  return number;
}

void TakeLink(const nlmsghdr& message, uint32_t index, ip::KernelState* state) {
  const auto* link = Find<ifinfomsg>(message);
  if (link == nullptr || static_cast<uint32_t>(link->ifi_index) != index) return;
  state->up = (link->ifi_flags & IFF_UP) != 0;
  Attributes<ifinfomsg>(message, [&](uint16_t type, Value value) {
    if (type == IFLA_ADDRESS) state->mac = ToMac(value).value_or(state->mac);
    if (type == IFLA_QDISC) {
      state->qdisc.assign(value.begin(), std::find(value.begin(), value.end(), 0));
    }
    if (type == IFLA_MTU) {
      state->mtu = static_cast<uint16_t>(std::min<uint32_t>(ToU32(value), UINT16_MAX));
    }
  });
}

void TakeAddress(const nlmsghdr& message, uint32_t index, ip::KernelState* state) {
  const auto* address = Find<ifaddrmsg>(message);
  if (address == nullptr || address->ifa_index != index) return;
  uint32_t flags = address->ifa_flags;
  std::optional<Gid> local, peer;
  Attributes<ifaddrmsg>(message, [&](uint16_t type, Value value) {
    if (type == IFA_LOCAL) local = ToGid(value);
    if (type == IFA_ADDRESS) peer = ToGid(value);
    if (type == IFA_FLAGS) flags = ToU32(value);
  });
  // On a point-to-point link IFA_ADDRESS is the other end's; IPv6 without one has no IFA_LOCAL.
  const std::optional<Gid> own = local ? local : peer;
  if (!own || !IsOneHost(*own) || (flags & IFA_F_DADFAILED) != 0) return;
  // The link-local one, first in the GID table, has its place from the beginning: the others would
  // change theirs a second after the link is up, when the kernel knows that nobody else has it.
  if ((flags & IFA_F_TENTATIVE) != 0 && !own->IsLinkLocal()) return;
  state->addresses.push_back({.address = *own,
                              .prefix_length = address->ifa_prefixlen,
                              .deprecated = !own->IsIpv4() && (flags & IFA_F_DEPRECATED) != 0});
}

// A prefix is on the link if a route says so (RFC 5942 section 4): a router may announce one that
// is not, and an address may have been given without its route. Without any route, as while the
// interface is down, the addresses alone tell.
void NarrowUnroutedPrefixes(const std::vector<ip::Route>& on_link, ip::KernelState* state) {
  if (on_link.empty()) return;
  for (InterfaceAddress& own : state->addresses) {
    if (own.address.IsLinkLocal()) continue;
    const bool routed = std::ranges::any_of(on_link, [&own](const ip::Route& route) {
      return route.prefix_length == own.prefix_length &&
             InPrefix(own.address, route.prefix, route.prefix_length);
    });
    if (!routed) own.prefix_length = own.address.IsIpv4() ? 32 : 128;
  }
}

// `on_link` takes the routes without a gateway, of every table: which one holds for a packet is a
// matter of rules (policy routing, VRF), but each says that its prefix is on the link. `refusing`
// takes the routes of the types unreachable, prohibit and blackhole. They get only the room that
// other routes leave.
void TakeRoute(const nlmsghdr& message, uint32_t index, ip::KernelState* state,
               std::vector<ip::Route>* on_link, std::vector<ip::Route>* refusing) {
  const auto* body = Find<rtmsg>(message);
  if (body == nullptr) return;
  const bool refuses = body->rtm_type == RTN_UNREACHABLE || body->rtm_type == RTN_PROHIBIT ||
                       body->rtm_type == RTN_BLACKHOLE;
  if (body->rtm_type != RTN_UNICAST && !refuses) return;
  // What a redirect or a path MTU has taught the kernel for a while, without a word of its end.
  if ((body->rtm_flags & RTM_F_CLONED) != 0) return;
  const bool ipv4 = body->rtm_family == AF_INET;
  if (!ipv4 && body->rtm_family != AF_INET6) return;
  uint32_t table = body->rtm_table;
  uint32_t interface = 0;
  ip::Route route{.prefix = ipv4 ? Gid::FromIpv4(0) : Gid{},
                  .prefix_length = body->rtm_dst_len,
                  .refuses = refuses};
  // Of several ways at once the first over this interface is taken.
  bool by_other_version = false;  // IPv4 by way of IPv6
  const auto take_hop = [&](uint16_t type, Value value) {
    if (type == RTA_GATEWAY) route.gateway = ToGid(value);
    if (type == RTA_VIA) by_other_version = true;
  };
  Attributes<rtmsg>(message, [&](uint16_t type, Value value) {
    take_hop(type, value);
    if (type == RTA_TABLE) table = ToU32(value);
    if (type == RTA_OIF) interface = ToU32(value);
    if (type == RTA_DST) route.prefix = ToGid(value).value_or(route.prefix);
    if (type == RTA_PREFSRC) route.source = ToGid(value);
    if (type == RTA_PRIORITY) route.metric = ToU32(value);
    if (type != RTA_MULTIPATH) return;
    while (value.size() >= sizeof(rtnexthop) && interface != index) {
      rtnexthop hop;
      std::memcpy(&hop, value.data(), sizeof hop);
      if (hop.rtnh_len < sizeof hop || hop.rtnh_len > value.size()) return;
      if (static_cast<uint32_t>(hop.rtnh_ifindex) == index) {
        interface = index;
        io::ForEachAttribute(value.data() + sizeof hop, hop.rtnh_len - sizeof hop, take_hop);
      }
      value = value.subspan(std::min<size_t>(RTNH_ALIGN(hop.rtnh_len), value.size()));
    }
  });
  // One that refuses holds for packets of every interface.
  if (!refuses && (interface != index || by_other_version)) return;
  if (!refuses && !route.gateway) on_link->push_back(route);
  if (table != RT_TABLE_MAIN) return;
  std::vector<ip::Route>& routes = refuses ? *refusing : state->routes;
  if (routes.size() < ip::Routes::kMaxRoutes) routes.push_back(route);
}

std::optional<ip::KernelNeighbour> ToNeighbour(const nlmsghdr& message, uint32_t index) {
  const auto* body = Find<ndmsg>(message);
  if (body == nullptr || message.nlmsg_type != RTM_NEWNEIGH ||
      static_cast<uint32_t>(body->ndm_ifindex) != index || (body->ndm_state & kUsable) == 0) {
    return std::nullopt;
  }
  std::optional<Gid> address;
  std::optional<MacAddress> mac;
  Attributes<ndmsg>(message, [&](uint16_t type, Value value) {
    if (type == NDA_DST) address = ToGid(value);
    if (type == NDA_LLADDR) mac = ToMac(value);
  });
  if (!address || !mac) return std::nullopt;
  return ip::KernelNeighbour{.address = *address, .mac = *mac};
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelInterface>> KernelInterface::Open(const std::string& name,
                                                                       bool hold_port) {
  const uint32_t index = if_nametoindex(name.c_str());
  if (index == 0) {
    return absl::NotFoundError(
        absl::StrCat("interface \"", name, "\" does not exist; `ip link` lists those that do"));
  }
  constexpr uint32_t kNews = RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                             RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  // Before the first question, so that no change falls between.
  absl::StatusOr<io::NetlinkSocket> news = io::NetlinkSocket::Open(kNews);
  if (!news.ok()) return news.status();
  absl::StatusOr<io::NetlinkSocket> requests = io::NetlinkSocket::Open(0);
  if (!requests.ok()) return requests.status();
  std::unique_ptr<KernelInterface> made(
      new KernelInterface(name, index, *std::move(news), *std::move(requests)));
  if (hold_port) {
    absl::StatusOr<std::unique_ptr<RoceUdpPort>> port = RoceUdpPort::Hold(name, index);
    if (!port.ok()) return port.status();
    made->roce_port_ = *std::move(port);
  }
  if (absl::Status status = made->ReadState(&made->state_); !status.ok()) return status;
  return made;
}

KernelInterface::~KernelInterface() {
  for (const int fd : group_sockets_) close(fd);
}

absl::Status KernelInterface::ReadState(ip::KernelState* state) {
  *state = {};
  state->index = index_;
  io::NetlinkRequest link(RTM_GETLINK, 0);
  ifinfomsg about{};
  about.ifi_index = static_cast<int>(index_);
  link.With(about);
  absl::Status status =
      requests_.Ask(link, [&](const nlmsghdr& message) { TakeLink(message, index_, state); });
  if (!status.ok()) return status;
  io::NetlinkRequest addresses(RTM_GETADDR, NLM_F_DUMP);
  addresses.With(ifaddrmsg{});
  status = requests_.Ask(addresses,
                         [&](const nlmsghdr& message) { TakeAddress(message, index_, state); });
  if (!status.ok()) return status;
  std::stable_partition(state->addresses.begin(), state->addresses.end(),
                        [](const InterfaceAddress& own) { return own.address.IsLinkLocal(); });
  std::vector<ip::Route> on_link, refusing;
  for (const uint8_t family : {AF_INET, AF_INET6}) {
    io::NetlinkRequest routes(RTM_GETROUTE, NLM_F_DUMP);
    rtmsg wanted{};
    wanted.rtm_family = family;
    routes.With(wanted);
    status = requests_.Ask(routes, [&](const nlmsghdr& message) {
      TakeRoute(message, index_, state, &on_link, &refusing);
    });
    if (!status.ok()) return status;
  }
  refusing.resize(std::min(refusing.size(), ip::Routes::kMaxRoutes - state->routes.size()));
  state->routes.insert(state->routes.end(), refusing.begin(), refusing.end());
  NarrowUnroutedPrefixes(on_link, state);
  return absl::OkStatus();
}

// A failure leaves the neighbours to their time-outs.
void KernelInterface::ReadNeighbours(std::vector<ip::KernelNeighbour>* found) {
  io::NetlinkRequest neighbours(RTM_GETNEIGH, NLM_F_DUMP);
  neighbours.With(ndmsg{});
  requests_
      .Ask(neighbours,
           [&](const nlmsghdr& message) {
             if (const auto neighbour = ToNeighbour(message, index_)) found->push_back(*neighbour);
           })
      .IgnoreError();
}

bool KernelInterface::Poll(std::vector<ip::KernelNeighbour>* found) {
  if (roce_port_ != nullptr && ++polls_ % kPollsPerTakeOver == 0) roce_port_->TakeOver();
  found->insert(found->end(), answers_.begin(), answers_.end());
  answers_.clear();
  const bool complete = news_.Drain([&](const nlmsghdr& message) {
    if (message.nlmsg_type == RTM_NEWNEIGH || message.nlmsg_type == RTM_DELNEIGH) {
      if (const auto neighbour = ToNeighbour(message, index_)) found->push_back(*neighbour);
    } else {
      is_stale_ = true;
    }
  });
  is_stale_ |= !complete;
  if (!is_stale_) return false;
  if (!complete) ReadNeighbours(found);
  // All of it again: changes are rare, and what a message means depends on those before it.
  ip::KernelState now;
  if (!ReadState(&now).ok()) return false;
  is_stale_ = false;
  if (now == state_) return false;
  state_ = std::move(now);
  return true;
}

void KernelInterface::Solicit(const Gid& target) {
  const std::span<const uint8_t> bytes = io::AddressBytes(target);
  ndmsg body{};
  body.ndm_family = io::FamilyOf(target);
  body.ndm_ifindex = static_cast<int>(index_);
  // As if the kernel had a packet for it: it asks when it does not know, confirms when it is stale.
  io::NetlinkRequest use(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK);
  ndmsg used = body;
  used.ndm_state = NUD_NONE;
  used.ndm_flags = NTF_USE;
  use.With(used).Attribute(NDA_DST, bytes.data(), bytes.size());
  requests_.Ask(use, [](const nlmsghdr&) {}).IgnoreError();
  // What it knows already it does not tell as news.
  io::NetlinkRequest get(RTM_GETNEIGH, 0);
  get.With(body).Attribute(NDA_DST, bytes.data(), bytes.size());
  requests_
      .Ask(get,
           [&](const nlmsghdr& message) {
             if (const auto neighbour = ToNeighbour(message, index_))
               answers_.push_back(*neighbour);
           })
      .IgnoreError();
}

bool KernelInterface::ChangeGroup(int socket, const Gid& group, bool join) const {
  if (group.IsIpv4()) {
    ip_mreqn request{};
    request.imr_multiaddr.s_addr = htonl(group.Ipv4());
    request.imr_ifindex = static_cast<int>(index_);
    return setsockopt(socket, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request,
                      sizeof request) == 0;
  }
  ipv6_mreq request{};
  std::copy(group.raw.begin(), group.raw.end(), request.ipv6mr_multiaddr.s6_addr);
  request.ipv6mr_interface = index_;
  return setsockopt(socket, IPPROTO_IPV6, join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP,
                    &request, sizeof request) == 0;
}

absl::Status KernelInterface::Join(const Gid& group) {
  const auto refused = [&](int error) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("joining ", FormatAddress(group), " on \"", name_, "\""));
  };
  if (joined_.contains(group)) return refused(EADDRINUSE);
  const int family = io::FamilyOf(group);
  for (const int fd : group_sockets_) {
    int own = 0;
    socklen_t bytes = sizeof own;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &own, &bytes) != 0 || own != family) continue;
    if (ChangeGroup(fd, group, true)) {
      joined_[group] = fd;
      return absl::OkStatus();
    }
    if (errno != ENOBUFS && errno != ENOMEM) return refused(errno);
  }
  const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return refused(errno);
  if (!ChangeGroup(fd, group, true)) {
    const int error = errno;
    close(fd);
    return refused(error);
  }
  group_sockets_.push_back(fd);
  joined_[group] = fd;
  return absl::OkStatus();
}

absl::Status KernelInterface::Leave(const Gid& group) {
  const auto found = joined_.find(group);
  int error = EADDRNOTAVAIL;
  if (found != joined_.end()) {
    error = ChangeGroup(found->second, group, false) ? 0 : errno;
    joined_.erase(found);
  }
  if (error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error,
                             absl::StrCat("leaving ", FormatAddress(group), " on \"", name_, "\""));
}

}  // namespace pollux::kernel
