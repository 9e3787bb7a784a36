#include "cm/wire/cma_header.h"

#include <algorithm>

namespace pollux::cm {
namespace {

constexpr size_t kIpVersionAt = 1;
constexpr size_t kSourcePortAt = 2;
constexpr size_t kSourceAt = 4;
constexpr size_t kDestinationAt = 20;
constexpr size_t kIpv4InAddress = 12;

Gid ParseAddress(std::span<const uint8_t> at, bool ipv4) {
  Gid gid;
  std::copy_n(at.begin(), gid.raw.size(), gid.raw.begin());
  if (ipv4) {
    // What stands before an IPv4 address is reserved; a GID wants its own prefix there.
    std::fill_n(gid.raw.begin(), 10, uint8_t{0});
    gid.raw[10] = gid.raw[11] = 0xFF;
  }
  return gid;
}

void EmitAddress(const Gid& gid, bool ipv4, std::span<uint8_t> at) {
  const size_t from = ipv4 ? kIpv4InAddress : 0;
  std::copy(gid.raw.begin() + from, gid.raw.end(), at.begin() + from);
}

}  // namespace

std::optional<CmaHeader> CmaHeader::Parse(std::span<const uint8_t> bytes) {
  if (bytes.size() < kCmaHeaderBytes) return std::nullopt;
  const uint8_t ip_version = bytes[kIpVersionAt] >> 4;
  if (bytes[0] >> 4 != 0 || (ip_version != 4 && ip_version != 6)) return std::nullopt;
  CmaHeader header;
  header.version = bytes[0];
  header.source_port = static_cast<uint16_t>(bytes[kSourcePortAt] << 8 | bytes[kSourcePortAt + 1]);
  header.source = ParseAddress(bytes.subspan(kSourceAt), ip_version == 4);
  header.destination = ParseAddress(bytes.subspan(kDestinationAt), ip_version == 4);
  return header;
}

void CmaHeader::Emit(std::span<uint8_t, kCmaHeaderBytes> out) const {
  const bool ipv4 = source.IsIpv4() && destination.IsIpv4();
  std::fill(out.begin(), out.end(), 0);
  out[0] = version;
  out[kIpVersionAt] = ipv4 ? 0x40 : 0x60;
  out[kSourcePortAt] = static_cast<uint8_t>(source_port >> 8);
  out[kSourcePortAt + 1] = static_cast<uint8_t>(source_port);
  EmitAddress(source, ipv4, out.subspan(kSourceAt));
  EmitAddress(destination, ipv4, out.subspan(kDestinationAt));
}

}  // namespace pollux::cm
