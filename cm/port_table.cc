#include "cm/port_table.h"

#include <algorithm>

namespace pollux::cm {

bool PortTable::Bind(Connection& connection, const Endpoint& local) {
  std::vector<Binding>& holders =
      bindings_[ServiceId{connection.port_space(), local.port}.ToWire()];
  const bool taken = std::ranges::any_of(holders, [&](const Binding& binding) {
    return binding.address == local.address || binding.address == Gid{} || local.address == Gid{};
  });
  if (taken) return false;
  holders.push_back({local.address, &connection});
  connection.mutable_local() = local;
  connection.has_port = true;
  return true;
}

bool PortTable::BindEphemeral(Connection& connection, const Gid& address, Random& random) {
  const uint32_t own = kEphemerals / shard_.count;
  const uint64_t start = random.Below(own);
  for (uint32_t tried = 0; tried < own; ++tried) {
    const uint64_t chosen = (start + tried) % own * shard_.count + shard_.index;
    const auto port = static_cast<uint16_t>(kFirstEphemeral + chosen);
    if (Bind(connection, {address, port})) return true;
  }
  return false;
}

void PortTable::Release(Connection& connection) {
  if (!connection.has_port) return;
  connection.has_port = false;
  const auto it =
      bindings_.find(ServiceId{connection.port_space(), connection.local().port}.ToWire());
  std::erase_if(it->second,
                [&](const Binding& binding) { return binding.connection == &connection; });
  if (it->second.empty()) bindings_.erase(it);
}

Connection* PortTable::FindListener(ServiceId service, const Gid& address) const {
  const auto it = bindings_.find(service.ToWire());
  if (it == bindings_.end()) return nullptr;
  Connection* found = nullptr;
  for (const Binding& binding : it->second) {
    if (binding.connection->state != State::kListen) continue;
    if (binding.address == address) return binding.connection;
    if (binding.address == Gid{}) found = binding.connection;
  }
  return found;
}

size_t PortTable::size() const {
  size_t count = 0;
  for (const auto& [service, holders] : bindings_) count += holders.size();
  return count;
}

}  // namespace pollux::cm
