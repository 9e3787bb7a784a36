// The registration of a service with this host's rpcbind.
#ifndef POLLUX_TOOLS_COMMON_REGISTRATION_H_
#define POLLUX_TOOLS_COMMON_REGISTRATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oncrpc/rpcbind.h"
#include "stack/base/socket_address.h"

namespace pollux::tools {

// Registered for a service that listens at all addresses of this host, so that the registration
// stays right when the addresses change: rpcbind replies with the address at which it was asked.
std::vector<SocketAddress> AllAddresses(uint16_t port);

// Returns the address at which this host's rpcbind has the program by TCP, if another service than
// that at `port` accepts connections there. A registration that a process left behind does not
// count, since nothing listens at its port. Blocks. Unavailable if rpcbind does not reply.
absl::StatusOr<std::optional<SocketAddress>> FindOtherService(uint32_t program, uint32_t version,
                                                              uint16_t port);

// The service is registered from Make() until destruction, which leaves what another service has
// registered in the meantime. Blocks, so it must not be used on a polled core.
class Registration {
 public:
  // Registers the first address of each IP version, because rpcbind has one address per netid.
  // Replaces other registrations of the program: see FindOtherService().
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
  std::vector<SocketAddress> registered_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_REGISTRATION_H_
