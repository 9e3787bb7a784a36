#include "tools/common/registration.h"

#include <algorithm>

namespace pollux::tools {
namespace {

// The unspecified address of the same IP version.
Gid AnyAddressLike(const Gid& address) { return address.IsIpv4() ? Gid::FromIpv4(0) : Gid{}; }

}  // namespace

std::vector<SocketAddress> AllAddresses(uint16_t port) {
  return {{.address = Gid::FromIpv4(0), .port = port}, {.address = Gid{}, .port = port}};
}

absl::StatusOr<std::optional<SocketAddress>> FindOtherService(uint32_t program, uint32_t version,
                                                              uint16_t port) {
  auto rpcbind = oncrpc::RpcBind::Local();
  if (!rpcbind.ok()) return rpcbind.status();
  for (const SocketAddress& any : AllAddresses(port)) {
    const auto found =
        rpcbind->Find(program, version, any.address, oncrpc::RpcBind::Transport::kTcp);
    if (absl::IsUnavailable(found.status())) return found.status();
    if (!found.ok() || found->port == port) continue;
    if (oncrpc::RpcBind::IsServedByTcp(*found)) return std::optional<SocketAddress>(*found);
  }
  return std::optional<SocketAddress>();
}

absl::StatusOr<std::unique_ptr<Registration>> Registration::Make(
    uint32_t program, uint32_t version, const std::vector<SocketAddress>& endpoints,
    oncrpc::RpcBind::Transport transport) {
  std::unique_ptr<Registration> made(new Registration(transport, program, version));
  if (absl::Status status = made->Register(endpoints); !status.ok()) return status;
  return made;
}

absl::Status Registration::Register(const std::vector<SocketAddress>& endpoints) {
  auto rpcbind = oncrpc::RpcBind::Local();
  if (!rpcbind.ok()) return rpcbind.status();
  for (const SocketAddress& endpoint : endpoints) {
    const bool first = std::ranges::none_of(registered_, [&](const SocketAddress& other) {
      return other.address.IsIpv4() == endpoint.address.IsIpv4();
    });
    if (!first) continue;
    absl::Status status = rpcbind->Register(program_, version_, endpoint, transport_);
    if (!status.ok()) return status;
    registered_.push_back(endpoint);
  }
  return absl::OkStatus();
}

// Whatever fails here, rpcbind has gone, and its list with it.
Registration::~Registration() {
  auto rpcbind = oncrpc::RpcBind::Local();
  if (!rpcbind.ok()) return;
  for (const SocketAddress& ours : registered_) {
    const auto found = rpcbind->Find(program_, version_, AnyAddressLike(ours.address), transport_);
    if (!found.ok() || *found != ours) continue;
    rpcbind->Unregister(program_, version_, ours.address, transport_).IgnoreError();
  }
}

}  // namespace pollux::tools
