// Messages between the managers of one device's workers.
#ifndef POLLUX_CM_CONNECTION_HANDOVER_H_
#define POLLUX_CM_CONNECTION_HANDOVER_H_

#include <cstdint>

#include "cm/wire/mad.h"
#include "stack/base/types.h"

namespace pollux::cm {

// How a received message has reached a manager: directly from queue pair 1, or passed on by other
// managers that could not handle it. A message makes at most two rounds: one before it reaches the
// home of its client, and one from there.
struct Route {
  uint32_t tried = 0;      // the number of managers that have passed it on
  bool from_home = false;  // `tried` counts from the client's home on (Shard::HomeOf)
};

// A received message that another manager must handle.
struct Handover {
  Gid from, to;
  uint64_t transaction_id = 0;
  Route route;
  Message message;
};

// A connection to this queue pair of a peer was established at `at_ns`. Other managers may have
// older connections to it: these have ended without a DREQ.
struct PeerQpTaken {
  Gid peer;
  uint64_t ca_guid = 0;
  uint32_t qpn = 0;
  uint64_t at_ns = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_HANDOVER_H_
