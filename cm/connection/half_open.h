// Connections whose REP was sent and whose RTU has not arrived. Their number is limited so that
// peers that never send an RTU, or do not exist, cannot keep other clients out.
#ifndef POLLUX_CM_CONNECTION_HALF_OPEN_H_
#define POLLUX_CM_CONNECTION_HALF_OPEN_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "cm/connection/connection.h"
#include "stack/base/types.h"

namespace pollux::cm {

// Half-open connections have a limit of their own, apart from that of established connections. At
// the limit an old one is ended, instead of refusing the newest: a peer that sends an RTU does so
// within a round trip, so an old entry is unlikely to be established. Stateless cookies are not
// possible, because an RTU repeats nothing of its REQ.
//
// Owned by the manager, on its core.
class HalfOpen {
 public:
  explicit HalfOpen(size_t capacity) : capacity_(capacity) {}

  // Adds a connection. If there are too many now, returns the one to end: the oldest of the address
  // that has the most half-open connections. If several addresses have that many, returns the
  // oldest of all of theirs. If its listener has more than `max_of_listener`, only connections of
  // this listener are considered. Returns null if there is space.
  CmConnection* Enter(CmConnection& connection, uint32_t max_of_listener);
  // Does nothing if the connection is not half-open.
  void Leave(CmConnection& connection);

 private:
  struct Entry {
    uint64_t order;
    CmConnection* connection;
  };

  struct Group {
    Gid address;
    uint32_t listener;  // its communication ID
    friend auto operator<=>(const Group&, const Group&) = default;
  };
  static Group GroupOf(const CmConnection& connection) {
    return {connection.peer().address, connection.listener_comm_id};
  }

  const size_t capacity_;
  size_t size_ = 0;
  uint64_t last_order_ = 0;
  std::map<Group, std::deque<Entry>> groups_;  // oldest first; none empty
  std::map<uint32_t, uint32_t> of_listeners_;  // the number of each; no entry is 0
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_HALF_OPEN_H_
