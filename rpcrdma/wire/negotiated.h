// What the two sides of a connection agreed on.
#ifndef POLLUX_RPCRDMA_WIRE_NEGOTIATED_H_
#define POLLUX_RPCRDMA_WIRE_NEGOTIATED_H_

#include <vector>

#include "rpcrdma/wire/private_data.h"

namespace pollux::rpcrdma {

struct Negotiated {
  InlineThresholds thresholds;
  PrivateData local;
  PrivateData peer;                        // the defaults when it sent none
  bool peer_sent = false;                  // RFC 8797 private data was found
  std::vector<uint8_t> peer_private_data;  // as it came; CM pads it with zeros

  // RFC 8797 section 4.1: both must say so.
  bool remote_invalidation() const { return local.remote_invalidation && peer.remote_invalidation; }
};

// What whoever calls, and whoever answers, must hold to in one direction of a connection.
struct DirectionTerms {
  uint32_t call_threshold = kMinInlineBytes;  // bytes of a message
  uint32_t reply_threshold = kMinInlineBytes;
  bool remote_invalidation = false;  // replies may invalidate: of whoever answers
  // What calls offer must be such that replies may: of whoever calls. It is so by what this side
  // has said alone, since Linux's server invalidates without having said that it would.
  bool invalidatable = false;
  bool chunks = true;  // calls may offer memory
};
inline DirectionTerms ForwardTerms(const Negotiated& negotiated) {
  return {.call_threshold = negotiated.thresholds.client_to_server,
          .reply_threshold = negotiated.thresholds.server_to_client,
          .remote_invalidation = negotiated.remote_invalidation(),
          .invalidatable = negotiated.local.remote_invalidation};
}
// RFC 8167 section 4.2: the thresholds change places. RFC 8167 section 5.3 and RFC 8267
// section 6.5.2: chunks need not be supported in this direction, and are not.
inline DirectionTerms ReverseTerms(const Negotiated& negotiated) {
  return {.call_threshold = negotiated.thresholds.server_to_client,
          .reply_threshold = negotiated.thresholds.client_to_server,
          .chunks = false};
}

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_NEGOTIATED_H_
