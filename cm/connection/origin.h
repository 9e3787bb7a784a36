// Where a received message comes from.
#ifndef POLLUX_CM_CONNECTION_ORIGIN_H_
#define POLLUX_CM_CONNECTION_ORIGIN_H_

#include <cstdint>

#include "cm/connection/connection.h"
#include "cm/connection/handover.h"
#include "stack/base/types.h"

namespace pollux::cm {

// The sender of a message, the address of ours that it was sent to, and the transaction that its
// answer belongs to.
struct Origin {
  const Gid& from;
  const Gid& to;
  uint64_t transaction_id;
  Route route{};
};

// As if the peer of `connection` had sent the message that is answered.
inline Origin PeerOf(const CmConnection& connection) {
  return {connection.peer().address, connection.local().address, connection.transaction_id};
}

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ORIGIN_H_
