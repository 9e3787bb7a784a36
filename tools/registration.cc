#include "tools/registration.h"

#include <algorithm>
#include <utility>

#include "rpcrdma/rpcbind.h"

namespace pollux::tools {

absl::StatusOr<std::unique_ptr<Registration>> Registration::Make(
    uint32_t program, uint32_t version, const std::vector<cm::Endpoint>& endpoints) {
  std::unique_ptr<Registration> made(new Registration(/*tcp=*/false, program, version));
  if (absl::Status status = made->Register(endpoints); !status.ok()) return status;
  return made;
}

absl::StatusOr<std::unique_ptr<Registration>> Registration::MakeTcp(
    uint32_t program, uint32_t version, const std::vector<cm::Endpoint>& endpoints) {
  std::unique_ptr<Registration> made(new Registration(/*tcp=*/true, program, version));
  if (absl::Status status = made->Register(endpoints); !status.ok()) return status;
  return made;
}

absl::Status Registration::Register(const std::vector<cm::Endpoint>& endpoints) {
  auto rpcbind = rpcrdma::RpcBind::Local();
  if (!rpcbind.ok()) return rpcbind.status();
  for (const cm::Endpoint& endpoint : endpoints) {
    const bool first = std::ranges::none_of(
        addresses_, [&](const Gid& other) { return other.IsIpv4() == endpoint.address.IsIpv4(); });
    if (!first) continue;
    absl::Status status = tcp_ ? rpcbind->RegisterTcp(program_, version_, endpoint)
                               : rpcbind->Register(program_, version_, endpoint);
    if (!status.ok()) return status;
    addresses_.push_back(endpoint.address);
  }
  return absl::OkStatus();
}

// Whatever fails here, rpcbind has gone, and its list with it.
Registration::~Registration() {
  auto rpcbind = rpcrdma::RpcBind::Local();
  if (!rpcbind.ok()) return;
  for (const Gid& address : addresses_) {
    (tcp_ ? rpcbind->UnregisterTcp(program_, version_, address)
          : rpcbind->Unregister(program_, version_, address))
        .IgnoreError();
  }
}

}  // namespace pollux::tools
