#include "nfs/lock/lock_clients.h"

#include <algorithm>

namespace pollux::nfs {
namespace {

// One of them may have its domain behind it.
bool IsSameHost(std::string_view one, std::string_view other) {
  if (one.size() > other.size()) std::swap(one, other);
  if (!other.starts_with(one)) return false;
  const bool is_short = !one.empty() && one.find('.') == std::string_view::npos;
  return one.size() == other.size() || (is_short && other[one.size()] == '.');
}

}  // namespace

LockClients::Known* LockClients::Find(const LockClient& client) {
  const auto known = std::ranges::find(known_, client, &Known::client);
  return known == known_.end() ? nullptr : &*known;
}

LockClients::Known* LockClients::Enter(const LockClient& client) {
  Known entered{.client = client, .state = {}};
  const auto known = std::ranges::find(known_, client, &Known::client);
  if (known != known_.end()) {
    entered = std::move(*known);
    known_.erase(known);
  } else if (!MakeRoom(client.address)) {
    return nullptr;
  }
  known_.push_back(std::move(entered));
  return &known_.back();
}

bool LockClients::MakeRoom(const Gid& address) {
  const auto is_of_address = [&](const Known& known) { return known.client.address == address; };
  const bool crowded =
      std::ranges::count_if(known_, is_of_address) >= ptrdiff_t{kMaxClientsOfAddress};
  if (!crowded && known_.size() < kMaxClients) return true;
  const std::set<LockClient> holders = holders_();
  const auto idle = std::ranges::find_if(known_, [&](const Known& known) {
    return (!crowded || is_of_address(known)) && !holders.contains(known.client);
  });
  if (idle == known_.end()) return false;
  known_.erase(idle);
  return true;
}

std::optional<LockClients::Heard> LockClients::HeardOf(const LockClient& client,
                                                       std::optional<uint32_t> state) {
  const std::lock_guard lock(mutex_);
  Known* const known = Enter(client);
  if (known == nullptr) return std::nullopt;
  if (state.has_value() && known->state.has_value() && known->state != state) {
    known->incarnation = ++last_;
    known->freed = false;
  }
  if (state.has_value()) known->state = state;
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
  for (const Known& known : known_) {
    if (known.client.address != address || (known.state == state && known.freed)) continue;
    if (name.has_value() && !IsSameHost(known.client.name, *name)) continue;
    const uint64_t number = known.state == state ? known.incarnation : ++last_;
    restarted.push_back({.client = known.client, .number = number});
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
  if (state.has_value()) known->state = state;
}

}  // namespace pollux::nfs
