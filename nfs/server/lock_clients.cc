#include "nfs/server/lock_clients.h"

#include <algorithm>
#include <utility>

namespace pollux::nfs {

LockClients::Known& LockClients::Find(const LockClient& client) {
  Known found{.client = client, .state = {}};
  const auto known = std::ranges::find(known_, client, &Known::client);
  if (known != known_.end()) {
    found = std::move(*known);
    known_.erase(known);
  }
  known_.push_back(std::move(found));
  if (known_.size() > kMaxClients) known_.pop_front();
  return known_.back();
}

LockClients::Heard LockClients::HeardOf(const LockClient& client, uint32_t state) {
  const std::lock_guard lock(mutex_);
  Known& known = Find(client);
  const bool restarted = known.state.has_value() && *known.state != state;
  if (restarted) known.incarnation = ++last_;
  known.state = state;
  return {.incarnation = known.incarnation, .restarted = restarted};
}

uint64_t LockClients::IncarnationOf(const LockClient& client) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(known_, client, &Known::client);
  return known == known_.end() ? 0 : known->incarnation;
}

uint64_t LockClients::Renew(const LockClient& client) {
  const std::lock_guard lock(mutex_);
  return Find(client).incarnation = ++last_;
}

std::vector<LockClients::Incarnation> LockClients::Restarted(const Gid& address, uint32_t state) {
  const std::lock_guard lock(mutex_);
  std::vector<Incarnation> restarted;
  for (const Known& known : known_) {
    if (known.client.address != address || known.state == state) continue;
    restarted.push_back({.client = known.client, .number = ++last_});
  }
  return restarted;
}

}  // namespace pollux::nfs
