#include "cm/connection/port_table.h"

#include <algorithm>
#include <utility>

namespace pollux::cm {
namespace {

// Of one that is bound to any address: whether it is there for that one.
bool Takes(const CmConnection& any, const Gid& address) {
  return !any.ipv6_only || !address.IsIpv4();
}

bool Overlap(const CmConnection& a, const Gid& address_of_a, const CmConnection& b,
             const Gid& address_of_b) {
  if (address_of_a == address_of_b) {
    return address_of_a != Gid{} || a.ipv6_only == b.ipv6_only;
  }
  if (address_of_a == Gid{}) return Takes(a, address_of_b);
  return address_of_b == Gid{} && Takes(b, address_of_a);
}

}  // namespace

bool PortTable::IsFree(const CmConnection& connection, const SocketAddress& local,
                       Sharing sharing) const {
  const auto it = bindings_.find(ServiceId{connection.port_space(), local.port}.ToWire());
  if (it == bindings_.end()) return true;
  return std::ranges::none_of(it->second, [&](const Binding& binding) {
    const CmConnection& other = *binding.connection;
    if (&other == &connection) return false;
    const bool shared = sharing == Sharing::kAsSaid && connection.reuses_address &&
                        other.reuses_address && other.state != State::kListen;
    return !shared && Overlap(other, binding.address, connection, local.address);
  });
}

absl::Status PortTable::Claim(CmConnection& connection, uint16_t port) {
  if (claims_ == nullptr || connection.has_claim) return absl::OkStatus();
  const ServiceId service{connection.port_space(), port};
  absl::Status status = claims_->ClaimService(service.ToWire());
  connection.has_claim = status.ok();
  return status;
}

void PortTable::ReleaseClaim(CmConnection& connection) {
  if (!std::exchange(connection.has_claim, false)) return;
  claims_->ReleaseService(ServiceId{connection.port_space(), connection.local().port}.ToWire());
}

void PortTable::Add(CmConnection& connection, const SocketAddress& local) {
  bindings_[ServiceId{connection.port_space(), local.port}.ToWire()].push_back(
      {local.address, &connection});
  connection.mutable_local() = local;
  connection.has_port = true;
}

absl::Status PortTable::Bind(CmConnection& connection, const SocketAddress& local) {
  if (!IsFree(connection, local, Sharing::kAsSaid)) {
    return absl::AlreadyExistsError("the port is in use");
  }
  absl::Status status = Claim(connection, local.port);
  if (status.ok()) Add(connection, local);
  return status;
}

bool PortTable::SetIpv6Only(CmConnection& connection, bool only) {
  const bool before = std::exchange(connection.ipv6_only, only);
  if (!connection.has_port || IsFree(connection, connection.local(), Sharing::kAsSaid)) return true;
  connection.ipv6_only = before;
  return false;
}

bool PortTable::IsAlone(const CmConnection& connection) const {
  return IsFree(connection, connection.local(), Sharing::kNone);
}

absl::Status PortTable::BindEphemeral(CmConnection& connection, const Gid& address, Random& random,
                                      Use use) {
  const uint32_t own = kEphemerals / shard_.count;
  const uint64_t start = random.Below(own);
  for (uint32_t tried = 0; tried < own; ++tried) {
    const uint64_t chosen = (start + tried) % own * shard_.count + shard_.index;
    const auto port = static_cast<uint16_t>(kFirstEphemeral + chosen);
    if (!IsFree(connection, {address, port}, Sharing::kNone)) continue;
    if (use == Use::kMayListen) {
      const absl::Status status = Claim(connection, port);
      if (absl::IsAlreadyExists(status)) continue;
      if (!status.ok()) return status;
    }
    Add(connection, {address, port});
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError("all ephemeral ports are in use");
}

void PortTable::Release(CmConnection& connection) {
  ReleaseClaim(connection);
  if (!std::exchange(connection.has_port, false)) return;
  const uint64_t service = ServiceId{connection.port_space(), connection.local().port}.ToWire();
  const auto it = bindings_.find(service);
  std::erase_if(it->second,
                [&](const Binding& binding) { return binding.connection == &connection; });
  if (it->second.empty()) bindings_.erase(it);
}

CmConnection* PortTable::FindListener(ServiceId service, const Gid& address) const {
  const auto it = bindings_.find(service.ToWire());
  if (it == bindings_.end()) return nullptr;
  CmConnection* found = nullptr;
  for (const Binding& binding : it->second) {
    if (binding.connection->state != State::kListen) continue;
    if (binding.address == address) return binding.connection;
    if (binding.address != Gid{} || !Takes(*binding.connection, address)) continue;
    if (found == nullptr || binding.connection->ipv6_only) found = binding.connection;
  }
  return found;
}

size_t PortTable::size() const {
  size_t count = 0;
  for (const auto& [service, holders] : bindings_) count += holders.size();
  return count;
}

}  // namespace pollux::cm
