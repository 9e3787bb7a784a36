// The registration of a service with this host's rpcbind.
#ifndef POLLUX_TOOLS_COMMON_REGISTRATION_H_
#define POLLUX_TOOLS_COMMON_REGISTRATION_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oncrpc/rpcbind.h"
#include "stack/base/socket_address.h"

namespace pollux::tools {

// The service is registered from Make() until destruction. Blocks, so it must not be used on a
// polled core.
class Registration {
 public:
  // Registers the first address of each IP version, because rpcbind has one address per netid.
  // Errors are those of oncrpc::RpcBind.
  static absl::StatusOr<std::unique_ptr<Registration>> Make(
      uint32_t program, uint32_t version, const std::vector<SocketAddress>& endpoints,
      oncrpc::RpcBind::Transport transport = oncrpc::RpcBind::Transport::kRdma);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  Registration(oncrpc::RpcBind::Transport transport, uint32_t program, uint32_t version)
      : transport_(transport), program_(program), version_(version) {}
  absl::Status Register(const std::vector<SocketAddress>& endpoints);

  oncrpc::RpcBind::Transport transport_;
  uint32_t program_;
  uint32_t version_;
  std::vector<Gid> addresses_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_REGISTRATION_H_
