// The private data by which both sides of a connection tell their inline sizes.
// Source: RFC 8797.
#ifndef POLLUX_RPCRDMA_WIRE_PRIVATE_DATA_H_
#define POLLUX_RPCRDMA_WIRE_PRIVATE_DATA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace pollux::rpcrdma {

inline constexpr size_t kPrivateDataBytes = 8;
inline constexpr uint32_t kMinInlineBytes = 1024;  // RFC 8166 section 3.3.3: everybody takes that
inline constexpr uint32_t kMaxInlineBytes = 262144;

// What one side says of itself. The initial values are those of a side that says nothing.
// RFC 8797 section 5.1
struct PrivateData {
  bool remote_invalidation = false;
  uint32_t send_bytes = kMinInlineBytes;     // the largest Send it will transmit
  uint32_t receive_bytes = kMinInlineBytes;  // the largest Send it can receive
  friend bool operator==(const PrivateData&, const PrivateData&) = default;
};

// Sizes are cut to [kMinInlineBytes, kMaxInlineBytes] and rounded down to a multiple of 1,024.
std::array<uint8_t, kPrivateDataBytes> EncodePrivateData(const PrivateData& data);

// The first message in `bytes` at or after `from` that fits, at any alignment; a candidate of
// another version, or cut short, is passed over. Nothing: the peer gave none, and the defaults
// above hold. `from` is the length of the CMA header where `bytes` begins with one.
std::optional<PrivateData> FindPrivateData(absl::Span<const uint8_t> bytes, size_t from = 0);

// The largest messages that may be sent, bytes. Source: RFC 8797 section 4.2.
struct InlineThresholds {
  uint32_t client_to_server = kMinInlineBytes;
  uint32_t server_to_client = kMinInlineBytes;
};
InlineThresholds NegotiateThresholds(const PrivateData& client, const PrivateData& server);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_PRIVATE_DATA_H_
