// The origin of a received message.
#ifndef POLLUX_CM_CONNECTION_ORIGIN_H_
#define POLLUX_CM_CONNECTION_ORIGIN_H_

#include <cstdint>

#include "cm/connection/connection.h"
#include "cm/connection/handover.h"
#include "stack/base/types.h"

namespace pollux::cm {

// The sender of a message, the local address that it was sent to, its transaction ID, which the
// reply repeats, and its route.
struct Origin {
  const Gid& from;
  const Gid& to;
  uint64_t transaction_id;
  Route route{};
};

// The origin for a reply to the peer of `connection`.
inline Origin PeerOf(const CmConnection& connection) {
  return {connection.peer().address, connection.local().address, connection.transaction_id};
}

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ORIGIN_H_
