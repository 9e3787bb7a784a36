// The parameters on which the two sides of a connection have agreed.
#ifndef POLLUX_RPCRDMA_WIRE_NEGOTIATED_H_
#define POLLUX_RPCRDMA_WIRE_NEGOTIATED_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rpcrdma/wire/private_data.h"

namespace pollux::rpcrdma {

struct Negotiated {
  InlineThresholds thresholds;
  PrivateData local;
  PrivateData peer;                        // the defaults if it sent none
  bool peer_sent = false;                  // RFC 8797 private data was found
  std::vector<uint8_t> peer_private_data;  // as received; CM pads it with zeros

  // RFC 8797 section 4.1: both sides must support it.
  bool remote_invalidation() const { return local.remote_invalidation && peer.remote_invalidation; }
};

// Source: RFC 8797. `bytes` is the peer's private data, without a CMA header.
Negotiated Negotiate(const PrivateData& local, bool local_is_client,
                     absl::Span<const uint8_t> bytes);

// The rules for the Requester and the Responder in one direction of a connection.
struct DirectionTerms {
  uint32_t call_threshold = kMinInlineBytes;  // maximum bytes of a message
  uint32_t reply_threshold = kMinInlineBytes;
  bool remote_invalidation = false;  // for the Responder: replies may invalidate
  // For the Requester: offered memory must be such that replies may invalidate it. This depends
  // only on what this side has announced, because Linux's server invalidates without announcing it.
  bool invalidatable = false;
  bool chunks = true;  // calls may offer memory
};
inline DirectionTerms ForwardTerms(const Negotiated& negotiated) {
  return {.call_threshold = negotiated.thresholds.client_to_server,
          .reply_threshold = negotiated.thresholds.server_to_client,
          .remote_invalidation = negotiated.remote_invalidation(),
          .invalidatable = negotiated.local.remote_invalidation};
}
// RFC 8167 section 4.2: the thresholds are swapped. RFC 8167 section 5.3 and RFC 8267 section
// 6.5.2: chunks are optional in this direction, and Pollux does not support them.
inline DirectionTerms ReverseTerms(const Negotiated& negotiated) {
  return {.call_threshold = negotiated.thresholds.server_to_client,
          .reply_threshold = negotiated.thresholds.client_to_server,
          .chunks = false};
}

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_NEGOTIATED_H_
