#include "stack/ip/routes.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::ip {
namespace {

bool OnLinkOf(const Gid& address, const InterfaceAddress& own) {
  return InPrefix(address, own.address, own.prefix_length);
}

absl::Status NoRoute(const Gid& destination, const std::vector<InterfaceAddress>& addresses) {
  std::string links;
  for (const InterfaceAddress& own : addresses) {
    if (own.address.IsIpv4() != destination.IsIpv4() || own.address.IsLinkLocal()) continue;
    absl::StrAppend(&links, links.empty() ? "" : ", ", FormatInterfaceAddress(own));
  }
  if (links.empty()) {
    return absl::NotFoundError(absl::StrCat("no route to ", FormatAddress(destination),
                                            ": this port has no IPv",
                                            destination.IsIpv4() ? "4" : "6", " address"));
  }
  return absl::NotFoundError(absl::StrCat("no route to ", FormatAddress(destination),
                                          ": it is not on the link of ", links,
                                          " and no gateway is set"));
}

}  // namespace

std::vector<Route> DefaultRoutes(const Gid& gateway,
                                 const std::vector<InterfaceAddress>& addresses) {
  Route route;
  route.gateway = gateway;
  if (gateway.IsIpv4()) route.prefix = Gid::FromIpv4(0);
  if (!gateway.IsLinkLocal()) {
    for (const InterfaceAddress& own : addresses) {
      if (!OnLinkOf(gateway, own)) continue;
      route.vlan = own.vlan;
      return {route};
    }
  }
  std::vector<Route> routes;
  for (const bool link_local : {false, true}) {
    for (const InterfaceAddress& own : addresses) {
      const auto is_there = [&own](const Route& one) { return one.vlan == own.vlan; };
      if (own.address.IsIpv4() != gateway.IsIpv4() || own.address.IsLinkLocal() != link_local ||
          std::ranges::any_of(routes, is_there)) {
        continue;
      }
      route.vlan = own.vlan;
      routes.push_back(route);
    }
    if (!routes.empty()) break;
  }
  // A gateway need not be on a prefix (one address of /32), and a link-local one is on each link.
  if (routes.empty()) return {route};
  if (!gateway.IsLinkLocal()) routes.resize(1);
  return routes;
}

Routes::Routes(std::vector<InterfaceAddress> addresses, std::vector<Route> routes)
    : addresses_(std::move(addresses)), routes_(std::move(routes)) {
  const size_t room = kMaxRoutes > addresses_.size() ? kMaxRoutes - addresses_.size() : 0;
  if (routes_.size() > room) routes_.resize(room);
  for (const InterfaceAddress& own : addresses_) {
    // The kernel's route to the same prefix goes first: it may name a source address.
    routes_.push_back({.prefix = own.address,
                       .prefix_length = own.prefix_length,
                       .vlan = own.vlan,
                       .metric = UINT32_MAX});
  }
}

bool Routes::IsOwn(const Gid& address) const {
  return std::ranges::any_of(addresses_,
                             [&](const InterfaceAddress& own) { return own.address == address; });
}

bool Routes::IsBroadcast(const Gid& address) const {
  if (!address.IsIpv4()) return false;
  const uint32_t ipv4 = address.Ipv4();
  return std::ranges::any_of(addresses_, [&](const InterfaceAddress& own) {
    if (own.prefix_length > 30 || !OnLinkOf(address, own)) return false;
    const uint32_t host_bits = ~0u >> own.prefix_length;
    return (ipv4 & host_bits) == host_bits;
  });
}

bool Routes::IsNeighbour(const Gid& address, uint16_t vlan) const {
  if (!IsOneHost(address) || IsBroadcast(address) || IsOwn(address)) return false;
  return std::ranges::any_of(routes_, [&](const Route& route) {
    if (route.vlan != vlan || route.refuses) return false;
    return route.gateway ? *route.gateway == address
                         : InPrefix(address, route.prefix, route.prefix_length);
  });
}

const Route* Routes::Longest(const Gid& destination, std::optional<uint16_t> vlan) const {
  const Route* best = nullptr;
  for (const Route& route : routes_) {
    if (vlan && route.vlan != *vlan) continue;
    if (!InPrefix(destination, route.prefix, route.prefix_length)) continue;
    const bool longer = best == nullptr || route.prefix_length > best->prefix_length;
    const bool cheaper = best != nullptr && route.prefix_length == best->prefix_length &&
                         route.metric < best->metric;
    if (longer || cheaper) best = &route;
  }
  return best;
}

std::optional<Gid> Routes::Source(const Gid& destination, uint16_t vlan) const {
  return Source(destination, destination, vlan);
}

std::optional<Gid> Routes::Source(const Gid& destination, const Gid& next_hop,
                                  uint16_t vlan) const {
  const InterfaceAddress* best = nullptr;
  const auto rank = [&](const InterfaceAddress& own) {
    return std::tuple(
        own.address.IsLinkLocal() == destination.IsLinkLocal(), !own.deprecated,
        OnLinkOf(next_hop, own),
        std::min<int>(CommonPrefixLength(own.address, destination), own.prefix_length));
  };
  for (const InterfaceAddress& own : addresses_) {
    if (own.vlan != vlan || own.address.IsIpv4() != destination.IsIpv4()) continue;
    if (best == nullptr || rank(own) > rank(*best)) best = &own;
  }
  if (best == nullptr) return std::nullopt;
  return best->address;
}

absl::StatusOr<Routes::Hop> Routes::Find(const Gid& destination,
                                         std::optional<uint16_t> vlan) const {
  if (!IsOneHost(destination) || IsBroadcast(destination)) {
    return absl::InvalidArgumentError(
        absl::StrCat(FormatAddress(destination), " is not the address of one host"));
  }
  if (IsOwn(destination)) {
    return absl::InvalidArgumentError(
        absl::StrCat(FormatAddress(destination),
                     " is this interface's own address; packets to it do not reach a wire"));
  }
  const Route* route = Longest(destination, vlan);
  if (route == nullptr) return NoRoute(destination, addresses_);
  if (route->refuses) {
    return absl::NotFoundError(absl::StrCat(
        "no route to ", FormatAddress(destination), ": the route to ",
        FormatInterfaceAddress({.address = route->prefix, .prefix_length = route->prefix_length}),
        " has the type unreachable, prohibit or blackhole"));
  }
  Hop hop{.address = route->gateway.value_or(destination), .vlan = route->vlan, .source = {}};
  const std::optional<Gid> source =
      route->source ? route->source : Source(destination, hop.address, route->vlan);
  if (!source) return NoRoute(destination, addresses_);
  hop.source = *source;
  return hop;
}

}  // namespace pollux::ip
