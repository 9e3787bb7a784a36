#include "rpcrdma/wire/negotiated.h"

namespace pollux::rpcrdma {

Negotiated Negotiate(const PrivateData& local, bool local_is_client,
                     absl::Span<const uint8_t> bytes) {
  Negotiated negotiated;
  negotiated.local = local;
  negotiated.peer_private_data.assign(bytes.begin(), bytes.end());
  const auto found = FindPrivateData(bytes);
  negotiated.peer_sent = found.has_value();
  // RFC 8797 section 5.1
  negotiated.peer = found.value_or(PrivateData{});
  negotiated.thresholds = local_is_client ? NegotiateThresholds(local, negotiated.peer)
                                          : NegotiateThresholds(negotiated.peer, local);
  return negotiated;
}

}  // namespace pollux::rpcrdma
