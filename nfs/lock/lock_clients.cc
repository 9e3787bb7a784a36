#include "nfs/lock/lock_clients.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace pollux::nfs {

bool IsSameHost(std::string_view one, std::string_view other) {
  if (one.size() > other.size()) std::swap(one, other);
  if (!other.starts_with(one)) return false;
  const bool is_short = !one.empty() && one.find('.') == std::string_view::npos;
  return one.size() == other.size() || (is_short && other[one.size()] == '.');
}

LockClients::Known* LockClients::Find(const LockClient& client) {
  const auto known = known_.find(client);
  return known == known_.end() ? nullptr : &known->second;
}

LockClients::Known* LockClients::Enter(const LockClient& client) {
  Known* known = Find(client);
  if (known == nullptr) {
    if (!MakeRoom(client.address)) return nullptr;
    known = &known_[client];
  }
  known->heard = ++heard_;
  return known;
}

std::pair<LockClients::All::iterator, LockClients::All::iterator> LockClients::OfAddress(
    const Gid& address) {
  const auto first = known_.lower_bound({.address = address, .name = {}});
  return {first, std::find_if(first, known_.end(),
                              [&](const auto& known) { return known.first.address != address; })};
}

bool LockClients::MakeRoom(const Gid& address) {
  auto [first, end] = OfAddress(address);
  const bool crowded = std::distance(first, end) >= ptrdiff_t{kMaxClientsOfAddress};
  if (!crowded && known_.size() < kMaxClients) return true;
  if (!crowded) std::tie(first, end) = std::pair(known_.begin(), known_.end());
  auto idle = end;
  for (auto known = first; known != end; ++known) {
    const bool is_older = idle == end || known->second.heard < idle->second.heard;
    if (is_older && !is_holder_(known->first)) idle = known;
  }
  if (idle == end) return false;
  known_.erase(idle);
  return true;
}

bool LockClients::IsStale(Known& known, uint32_t state, std::chrono::steady_clock::time_point now) {
  // States wrap, so their difference says which is later.
  if (static_cast<int32_t>(state - *known.state) > 0) return false;
  if (!known.earlier.has_value() || known.earlier->state != state) {
    known.earlier = Earlier{.state = state, .since = now};
  }
  return now - known.earlier->since < kResetAfter;
}

std::optional<LockClients::Heard> LockClients::HeardOf(const LockClient& client,
                                                       std::optional<uint32_t> state,
                                                       std::chrono::steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Known* const known = Enter(client);
  if (known == nullptr) return std::nullopt;
  if (state.has_value() && known->state.has_value() && known->state != state) {
    if (IsStale(*known, *state, now)) return Heard{.stale = true};
    known->incarnation = ++last_;
    known->freed = false;
  }
  if (state.has_value()) known->SetState(*state);
  return Heard{.incarnation = known->incarnation, .freed = known->freed};
}

std::optional<uint64_t> LockClients::Renew(const LockClient& client) {
  const std::lock_guard lock(mutex_);
  Known* const known = Find(client);
  if (known == nullptr) return std::nullopt;
  known->freed = false;
  return known->incarnation = ++last_;
}

std::vector<LockClients::Incarnation> LockClients::Restarted(const Gid& address, uint32_t state,
                                                             std::optional<std::string_view> name) {
  const std::lock_guard lock(mutex_);
  std::vector<Incarnation> restarted;
  const auto [first, end] = OfAddress(address);
  for (auto at = first; at != end; ++at) {
    const auto& [client, known] = *at;
    if (known.state == state && known.freed) continue;
    if (name.has_value() && !IsSameHost(client.name, *name)) continue;
    const uint64_t number = known.state == state ? known.incarnation : ++last_;
    restarted.push_back({.client = client, .number = number});
  }
  return restarted;
}

void LockClients::Freed(const Incarnation& incarnation, std::optional<uint32_t> state) {
  const std::lock_guard lock(mutex_);
  Known* const known = Find(incarnation.client);
  // It may have begun another one meanwhile.
  if (known == nullptr || known->incarnation > incarnation.number) return;
  known->incarnation = incarnation.number;
  known->freed = true;
  if (state.has_value()) known->SetState(*state);
}

}  // namespace pollux::nfs
