#include "stack/base/address.h"

#include <arpa/inet.h>

#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace pollux {
namespace {

constexpr int kIpv4Bits = 32;
constexpr int kIpv6Bits = 128;
constexpr int kMappedBits = kIpv6Bits - kIpv4Bits;  // before an IPv4 address in its GID form

absl::Status NotAnAddress(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not ADDRESS/LENGTH, as in 192.0.2.1/24 or 2001:db8::1/64,vlan=100"));
}

}  // namespace

absl::StatusOr<Gid> ParseAddress(absl::string_view text) {
  const std::string copy(text);
  in_addr ipv4;
  if (inet_pton(AF_INET, copy.c_str(), &ipv4) == 1) return Gid::FromIpv4(ntohl(ipv4.s_addr));
  Gid gid;
  if (inet_pton(AF_INET6, copy.c_str(), gid.raw.data()) == 1) return gid;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not an IP address, as in 192.0.2.1 or 2001:db8::1"));
}

absl::StatusOr<InterfaceAddress> ParseInterfaceAddress(absl::string_view text) {
  const std::pair<std::string, std::string> vlan = absl::StrSplit(text, absl::MaxSplits(',', 1));
  const std::pair<std::string, std::string> prefix =
      absl::StrSplit(vlan.first, absl::MaxSplits('/', 1));
  const absl::StatusOr<Gid> gid = ParseAddress(prefix.first);
  if (!gid.ok()) return gid.status();
  uint32_t length = 0;
  const uint32_t longest = gid->IsIpv4() ? kIpv4Bits : kIpv6Bits;
  if (!absl::SimpleAtoi(prefix.second, &length) || length > longest) return NotAnAddress(text);
  InterfaceAddress address{.address = *gid, .prefix_length = static_cast<uint8_t>(length)};
  if (!vlan.second.empty()) {
    absl::string_view id = vlan.second;
    uint32_t number = 0;
    if (!absl::ConsumePrefix(&id, "vlan=") || !absl::SimpleAtoi(id, &number) || number == 0 ||
        number > kMaxVlan) {
      return NotAnAddress(text);
    }
    address.vlan = static_cast<uint16_t>(number);
  }
  if (!IsOneHost(*gid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", prefix.first, "' is not the address of one host"));
  }
  if (IsNetworkOrBroadcast(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is the network's own or its broadcast address, not one of a host"));
  }
  return address;
}

std::string FormatAddress(const Gid& address) {
  const bool ipv4 = address.IsIpv4();
  const uint8_t* bytes = address.raw.data() + (ipv4 ? kMappedBits / 8 : 0);
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(ipv4 ? AF_INET : AF_INET6, bytes, text, sizeof text) == nullptr ? "?" : text;
}

std::string FormatInterfaceAddress(const InterfaceAddress& address) {
  return absl::StrCat(FormatAddress(address.address), "/", address.prefix_length,
                      address.vlan == kNoVlan ? "" : absl::StrCat(",vlan=", address.vlan));
}

std::string FormatMac(const MacAddress& mac) {
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                         mac[5]);
}

int CommonPrefixLength(const Gid& a, const Gid& b) {
  if (a.IsIpv4() != b.IsIpv4()) return 0;
  int bits = 0;
  for (size_t i = 0; i < a.raw.size(); ++i) {
    const auto difference = static_cast<uint8_t>(a.raw[i] ^ b.raw[i]);
    bits += std::countl_zero(difference);
    if (difference != 0) break;
  }
  return a.IsIpv4() ? bits - kMappedBits : bits;
}

bool InPrefix(const Gid& address, const Gid& prefix, uint8_t prefix_length) {
  return address.IsIpv4() == prefix.IsIpv4() &&
         CommonPrefixLength(address, prefix) >= prefix_length;
}

bool IsNetworkOrBroadcast(const InterfaceAddress& own) {
  // RFC 3021 leaves /31 and /32 neither; IPv6 has none.
  if (!own.address.IsIpv4() || own.prefix_length > kIpv4Bits - 2) return false;
  const uint32_t host_bits = ~0u >> own.prefix_length;
  const uint32_t host = own.address.Ipv4() & host_bits;
  return host == 0 || host == host_bits;
}

bool IsOneHost(const Gid& address) {
  if (!address.IsIpv4()) {
    Gid loopback{};
    loopback.raw[15] = 1;
    return !address.IsZero() && !address.IsMulticast() && address != loopback;
  }
  // 0.0.0.0/8 is "this network", 127.0.0.0/8 the host itself; from 224.0.0.0 on there are groups
  // and what nobody may use.
  const uint32_t ipv4 = address.Ipv4();
  return ipv4 >> 24 != 0 && ipv4 >> 24 != 127 && ipv4 < 0xE0000000;
}

}  // namespace pollux
