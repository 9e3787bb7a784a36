#include "stack/net/routes.h"

#include <arpa/inet.h>

#include "absl/strings/str_cat.h"

namespace pollux::net {
namespace {

// 224.0.0.0/4, and 240.0.0.0/4 which nobody may use as an address.
bool IsMulticastOrReserved(uint32_t address) { return address >= 0xE0000000; }
// 0.0.0.0/8: "this network", RFC 6890.
bool IsUnspecified(uint32_t address) { return address >> 24 == 0; }

}  // namespace

std::string FormatIpv4(uint32_t address) {
  return absl::StrCat(address >> 24, ".", address >> 16 & 0xFF, ".", address >> 8 & 0xFF, ".",
                      address & 0xFF);
}

std::string FormatAddress(const Gid& address) {
  if (address.IsIpv4()) return FormatIpv4(address.Ipv4());
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, address.raw.data(), text, sizeof text) == nullptr ? "?" : text;
}

Routes::Routes(uint32_t address, uint8_t prefix_length, std::optional<uint32_t> gateway)
    : address_(address),
      mask_(prefix_length == 0    ? 0
            : prefix_length >= 32 ? ~0u
                                  : ~0u << (32 - prefix_length)),
      gateway_(gateway) {}

bool Routes::IsBroadcast(uint32_t address) const {
  if (address == ~0u) return true;
  const uint32_t host_bits = ~mask_;
  return host_bits > 1 && OnLink(address) && (address & host_bits) == host_bits;
}

bool Routes::IsNeighbour(uint32_t address) const {
  if (IsUnspecified(address) || IsMulticastOrReserved(address) || IsBroadcast(address)) {
    return false;
  }
  return address != address_ && (OnLink(address) || address == gateway_);
}

absl::StatusOr<Gid> Routes::NextHop(const Gid& destination) const {
  if (!destination.IsIpv4()) {
    return absl::InvalidArgumentError(absl::StrCat(
        FormatAddress(destination), " is no IPv4 address; this interface carries IPv4 only"));
  }
  const uint32_t address = destination.Ipv4();
  if (IsUnspecified(address) || IsMulticastOrReserved(address) || IsBroadcast(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat(FormatAddress(destination), " is not the address of one host"));
  }
  if (address == address_) {
    return absl::InvalidArgumentError(
        absl::StrCat(FormatAddress(destination),
                     " is this interface's own address; packets to it do not reach a wire"));
  }
  if (OnLink(address)) return destination;
  if (gateway_) return Gid::FromIpv4(*gateway_);
  return absl::NotFoundError(absl::StrCat("no route to ", FormatAddress(destination),
                                          ": it is not on the link of ", FormatIpv4(address_), "/",
                                          __builtin_popcount(mask_), " and no gateway is set"));
}

}  // namespace pollux::net
