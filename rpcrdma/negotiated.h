// What the two sides of a connection agreed on.
#ifndef POLLUX_RPCRDMA_NEGOTIATED_H_
#define POLLUX_RPCRDMA_NEGOTIATED_H_

#include <vector>

#include "rpcrdma/private_data.h"

namespace pollux::rpcrdma {

struct Negotiated {
  InlineThresholds thresholds;
  PrivateData local;
  PrivateData peer;                        // the defaults when it sent none
  bool peer_sent = false;                  // RFC 8797 private data was found
  std::vector<uint8_t> peer_private_data;  // as it came; CM pads it with zeros
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_NEGOTIATED_H_
