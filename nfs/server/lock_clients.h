// The hosts that have locked something, as their status monitors count their starts.
#ifndef POLLUX_NFS_SERVER_LOCK_CLIENTS_H_
#define POLLUX_NFS_SERVER_LOCK_CLIENTS_H_

#include <cstdint>
#include <deque>
#include <mutex>

#include "nfs/server/lock_table.h"

namespace pollux::nfs {

// Any thread.
class LockClients {
 public:
  static constexpr size_t kMaxClients = 1024;  // the one longest unheard of is forgotten

  // Whether the client has started anew since it was last heard of: what it held then is nobody's.
  bool HasRestarted(const LockClient& client, uint32_t state);

 private:
  struct Known {
    LockClient client;
    uint32_t state = 0;
  };
  std::mutex mutex_;
  std::deque<Known> known_;  // the one heard of last at the end
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_LOCK_CLIENTS_H_
