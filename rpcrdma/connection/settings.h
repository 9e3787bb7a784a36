// Limits of the settings of clients and servers.
#ifndef POLLUX_RPCRDMA_CONNECTION_SETTINGS_H_
#define POLLUX_RPCRDMA_CONNECTION_SETTINGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "rpcrdma/connection/connection.h"

namespace pollux::rpcrdma {

inline constexpr uint32_t kMaxCredits = 256;
// Receives in addition to the credits, for messages that are neither a call nor a reply (RDMA_DONE,
// repetitions).
inline constexpr uint32_t kSpareReceives = 2;

// The numbers of a connection's send buffers and receives. RFC 8167 section 4.3: a connection needs
// the sum of those of both directions.
struct Shares {
  SendBuffers forward;  // calls at a client, replies at a server
  SendBuffers reverse;
  uint32_t receives = 0;
};
constexpr Shares SharesOf(uint32_t credits, uint32_t reverse_credits) {
  return {.forward = {.first = 0, .count = 2 * credits},
          .reverse = {.first = 2 * credits, .count = 2 * reverse_credits},
          .receives = credits + reverse_credits + kSpareReceives};
}

// InvalidArgument unless both numbers of credits are 1 to kMaxCredits and both sizes are multiples
// of 1,024 in [kMinInlineBytes, kMaxInlineBytes].
absl::Status CheckSettings(uint32_t credits, uint32_t reverse_credits, uint32_t send_bytes,
                           uint32_t receive_bytes);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_SETTINGS_H_
