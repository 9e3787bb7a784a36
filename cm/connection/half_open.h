// Connections whose REP is sent and whose RTU has not come: a peer that never sends it, or that
// does not exist, keeps nobody else out.
#ifndef POLLUX_CM_CONNECTION_HALF_OPEN_H_
#define POLLUX_CM_CONNECTION_HALF_OPEN_H_

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
  // here; of several such addresses, the oldest of all. Null when there is room.
  Connection* Enter(Connection& connection);
  // Does nothing for one that is not here.
  void Leave(Connection& connection);
  size_t size() const { return size_; }

 private:
  struct Entry {
    uint64_t order;
    Connection* connection;
  };

  const size_t capacity_;
  size_t size_ = 0;
  uint64_t last_order_ = 0;
  std::map<Gid, std::deque<Entry>> by_address_;  // oldest first; none empty
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_HALF_OPEN_H_
