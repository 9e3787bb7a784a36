#include "oncrpc/universal_address.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stack/base/address.h"

namespace pollux::oncrpc {
namespace {

constexpr uint32_t kMaxByte = 255;

}  // namespace

const char* Netid(const Gid& address) { return address.IsIpv4() ? "rdma" : "rdma6"; }

std::string UniversalAddress(const SocketAddress& endpoint) {
  return absl::StrCat(FormatAddress(endpoint.address), ".", endpoint.port >> 8, ".",
                      endpoint.port & kMaxByte);
}

absl::StatusOr<SocketAddress> ParseUniversalAddress(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "'", absl::CHexEscape(text),
      "' is not a universal address: an IP address and the two bytes of a port, in decimal"));
  const size_t low_dot = text.rfind('.');
  if (low_dot == absl::string_view::npos || low_dot == 0) return wrong;
  const size_t high_dot = text.rfind('.', low_dot - 1);
  if (high_dot == absl::string_view::npos) return wrong;
  uint32_t high = 0, low = 0;
  if (!absl::SimpleAtoi(text.substr(high_dot + 1, low_dot - high_dot - 1), &high) ||
      !absl::SimpleAtoi(text.substr(low_dot + 1), &low) || high > kMaxByte || low > kMaxByte) {
    return wrong;
  }
  const absl::StatusOr<Gid> address = ParseAddress(text.substr(0, high_dot));
  if (!address.ok()) return wrong;
  return SocketAddress{.address = *address, .port = static_cast<uint16_t>(high << 8 | low)};
}

}  // namespace pollux::oncrpc
