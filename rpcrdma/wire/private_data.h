// The private data by which both sides of a connection announce their inline sizes. Source: RFC
// 8797.
#ifndef POLLUX_RPCRDMA_WIRE_PRIVATE_DATA_H_
#define POLLUX_RPCRDMA_WIRE_PRIVATE_DATA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace pollux::rpcrdma {

inline constexpr size_t kPrivateDataBytes = 8;
// RFC 8166 section 3.3.3: every peer accepts this size.
inline constexpr uint32_t kMinInlineBytes = 1024;
inline constexpr uint32_t kMaxInlineBytes = 262144;

// The values of one side. The defaults apply to a peer that sends no such data. RFC 8797 section
// 5.1
struct PrivateData {
  bool remote_invalidation = false;
  uint32_t send_bytes = kMinInlineBytes;     // the largest Send it will transmit, in bytes
  uint32_t receive_bytes = kMinInlineBytes;  // the largest Send it can receive, in bytes
  friend bool operator==(const PrivateData&, const PrivateData&) = default;
};

// Encodes the values. Sizes are limited to [kMinInlineBytes, kMaxInlineBytes] and rounded down to a
// multiple of 1,024.
std::array<uint8_t, kPrivateDataBytes> EncodePrivateData(const PrivateData& data);

// Finds the first valid message in `bytes` at or after offset `from`, at any alignment. A candidate
// of another version, or one that is cut off, is skipped. Returns nothing if there is none; the
// defaults above then apply. `from` is the length of the CMA header if `bytes` starts with one.
std::optional<PrivateData> FindPrivateData(absl::Span<const uint8_t> bytes, size_t from = 0);

// The largest inline messages in each direction, in bytes. Source: RFC 8797 section 4.2.
struct InlineThresholds {
  uint32_t client_to_server = kMinInlineBytes;
  uint32_t server_to_client = kMinInlineBytes;
};
InlineThresholds NegotiateThresholds(const PrivateData& client, const PrivateData& server);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_PRIVATE_DATA_H_
