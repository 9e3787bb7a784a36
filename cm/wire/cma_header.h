// The RDMA IP CM header: the first 36 bytes of the private data of a REQ or SIDR_REQ. Source: IB
// specification volume 1, annex A11.
#ifndef POLLUX_CM_WIRE_CMA_HEADER_H_
#define POLLUX_CM_WIRE_CMA_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/types.h"

namespace pollux::cm {

inline constexpr size_t kCmaHeaderBytes = 36;

// Both addresses are IPv4 (as ::ffff:a.b.c.d) or both are IPv6. The destination port is not in this
// header but in the service ID.
struct CmaHeader {
  uint8_t version = 0;  // major version in the high four bits, minor in the low four
  uint16_t source_port = 0;
  Gid source;
  Gid destination;
  friend bool operator==(const CmaHeader&, const CmaHeader&) = default;

  // Returns nothing if `bytes` is shorter than the header, the CMA major version is not 0, or the
  // IP version is neither 4 nor 6.
  static std::optional<CmaHeader> Parse(std::span<const uint8_t> bytes);
  // Writes the header; the IP version is 4 if both addresses are IPv4.
  void Emit(std::span<uint8_t, kCmaHeaderBytes> out) const;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_WIRE_CMA_HEADER_H_
