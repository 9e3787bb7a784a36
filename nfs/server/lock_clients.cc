#include "nfs/server/lock_clients.h"

#include <algorithm>

namespace pollux::nfs {

bool LockClients::HasRestarted(const LockClient& client, uint32_t state) {
  const std::lock_guard lock(mutex_);
  bool restarted = false;
  const auto known = std::ranges::find(known_, client, &Known::client);
  if (known != known_.end()) {
    restarted = known->state != state;
    known_.erase(known);
  }
  known_.push_back({client, state});
  if (known_.size() > kMaxClients) known_.pop_front();
  return restarted;
}

}  // namespace pollux::nfs
