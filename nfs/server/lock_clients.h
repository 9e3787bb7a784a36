// The hosts that have locked something, as their status monitors count their starts.
#ifndef POLLUX_NFS_SERVER_LOCK_CLIENTS_H_
#define POLLUX_NFS_SERVER_LOCK_CLIENTS_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "nfs/server/lock_table.h"

namespace pollux::nfs {

// Any thread. A client's incarnation is 0 until it is seen to have started anew, then a number
// larger than every one before: what was locked under a smaller one is nobody's.
class LockClients {
 public:
  static constexpr size_t kMaxClients = 1024;  // the one longest unheard of is forgotten

  struct Incarnation {
    LockClient client;
    uint64_t number = 0;
  };

  struct Heard {
    uint64_t incarnation = 0;
    bool restarted = false;  // since it was last heard of
  };

  // By the state that its status monitor has.
  Heard HeardOf(const LockClient& client, uint32_t state);
  // The same of a client that does not say its state.
  uint64_t IncarnationOf(const LockClient& client);
  // A new one: it holds nothing any more, and says so.
  uint64_t Renew(const LockClient& client);
  // Those of the address that were last heard of in another state, each with a number that makes
  // void what they hold; they are not renewed by it.
  std::vector<Incarnation> Restarted(const Gid& address, uint32_t state);

 private:
  struct Known {
    LockClient client;
    std::optional<uint32_t> state;
    uint64_t incarnation = 0;
  };
  // Takes it to the end of the list, or puts it there.
  Known& Find(const LockClient& client);

  std::mutex mutex_;
  std::deque<Known> known_;  // the one heard of last at the end
  uint64_t last_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_LOCK_CLIENTS_H_
