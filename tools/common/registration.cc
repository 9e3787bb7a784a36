#include "tools/common/registration.h"

#include <algorithm>

namespace pollux::tools {

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
    const bool first = std::ranges::none_of(
        addresses_, [&](const Gid& other) { return other.IsIpv4() == endpoint.address.IsIpv4(); });
    if (!first) continue;
    absl::Status status = rpcbind->Register(program_, version_, endpoint, transport_);
    if (!status.ok()) return status;
    addresses_.push_back(endpoint.address);
  }
  return absl::OkStatus();
}

// Whatever fails here, rpcbind has gone, and its list with it.
Registration::~Registration() {
  auto rpcbind = oncrpc::RpcBind::Local();
  if (!rpcbind.ok()) return;
  for (const Gid& address : addresses_) {
    rpcbind->Unregister(program_, version_, address, transport_).IgnoreError();
  }
}

}  // namespace pollux::tools
