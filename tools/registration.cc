#include "tools/registration.h"

#include <algorithm>
#include <utility>

#include "rpcrdma/rpcbind.h"

namespace pollux::tools {

absl::StatusOr<std::unique_ptr<Registration>> Registration::Make(
    uint32_t program, uint32_t version, const std::vector<cm::Endpoint>& endpoints) {
  auto rpcbind = rpcrdma::RpcBind::Local();
  if (!rpcbind.ok()) return rpcbind.status();
  std::unique_ptr<Registration> made(new Registration(program, version));
  for (const cm::Endpoint& endpoint : endpoints) {
    const bool first = std::ranges::none_of(made->addresses_, [&](const Gid& other) {
      return other.IsIpv4() == endpoint.address.IsIpv4();
    });
    if (!first) continue;
    if (absl::Status status = rpcbind->Register(program, version, endpoint); !status.ok()) {
      return status;
    }
    made->addresses_.push_back(endpoint.address);
  }
  return made;
}

// Whatever fails here, rpcbind has gone, and its list with it.
Registration::~Registration() {
  auto rpcbind = rpcrdma::RpcBind::Local();
  if (!rpcbind.ok()) return;
  for (const Gid& address : addresses_)
    rpcbind->Unregister(program_, version_, address).IgnoreError();
}

}  // namespace pollux::tools
