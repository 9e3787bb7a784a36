// Connections whose REP is sent and whose RTU has not come: a peer that never sends it, or that
// does not exist, keeps nobody else out.
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

// Bounded apart from established connections. Where there are too many, one gives way to the
// newest, rather than the newest being refused: a peer that answers does so within a round trip,
// and is gone from here. A cookie in place of this state is not to be had: an RTU repeats nothing
// of its REQ.
//
// Owned by the manager, on its core.
class HalfOpen {
 public:
  explicit HalfOpen(size_t capacity) : capacity_(capacity) {}

  // The connection that has to be given up for this one: the oldest of the address that has most
  // here; of several such addresses, the oldest of all. Null when there is room. With more than
  // `max_of_listener` of its listener, one of those.
  CmConnection* Enter(CmConnection& connection, uint32_t max_of_listener);
  // Does nothing for one that is not here.
  void Leave(CmConnection& connection);
  size_t size() const { return size_; }

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
  std::map<uint32_t, uint32_t> of_listeners_;  // how many; none 0
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_HALF_OPEN_H_
