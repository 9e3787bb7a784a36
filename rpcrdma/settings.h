// Bounds of what a client or a server can be configured to.
#ifndef POLLUX_RPCRDMA_SETTINGS_H_
#define POLLUX_RPCRDMA_SETTINGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpcrdma/negotiated.h"

namespace pollux::rpcrdma {

inline constexpr uint32_t kMaxCredits = 256;
// Receives beyond the credits: for messages that carry no call or reply (RDMA_DONE, repeats).
inline constexpr uint32_t kSpareReceives = 2;

// InvalidArgument unless 1 <= credits <= kMaxCredits and both sizes are multiples of 1,024 in
// [kMinInlineBytes, kMaxInlineBytes].
absl::Status CheckSettings(uint32_t credits, uint32_t send_bytes, uint32_t receive_bytes);

// Source: RFC 8797. `bytes` is the peer's private data, without a CMA header.
Negotiated Negotiate(const PrivateData& local, bool local_is_client,
                     absl::Span<const uint8_t> bytes);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_SETTINGS_H_
