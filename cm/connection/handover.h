// What the managers of one device's workers pass to each other.
#ifndef POLLUX_CM_CONNECTION_HANDOVER_H_
#define POLLUX_CM_CONNECTION_HANDOVER_H_

#include <cstdint>

#include "cm/wire/mad.h"
#include "stack/base/types.h"

namespace pollux::cm {

// How a received message has come to a manager: straight from queue pair 1, or by others that could
// not act on it. Nothing goes round more than twice, once before it is at its client's home and
// once from there.
struct Route {
  uint32_t tried = 0;      // managers before, one after another, that had nothing to do with it
  bool from_home = false;  // counted from the client's home on (Shard::HomeOf)
};

// A received message that another manager is to act on.
struct Handover {
  Gid from, to;
  uint64_t transaction_id = 0;
  Route route;
  Message message;
};

// A peer's queue pair is in a connection that was established at `at_ns`: older ones with it, which
// other managers may have, are over though nobody has told them.
struct PeerQpTaken {
  Gid peer;
  uint64_t ca_guid = 0;
  uint32_t qpn = 0;
  uint64_t at_ns = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_HANDOVER_H_
