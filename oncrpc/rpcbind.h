// A client of rpcbind (RFC 1833) that registers and finds services over RPC-over-RDMA. libtirpc's
// rpcb_set() and rpcb_getaddr() cannot be used for this: they know only the netids of
// /etc/netconfig, which does not list RDMA, and their calls have no time limit. RPCBPROC_GETADDR
// returns the address for the transport over which it is called and ignores the netid in its
// argument (RFC 1833 section 2.2.1): it finds nothing for a program served over RDMA alone, and
// returns the TCP port for one served over both. RpcBind therefore uses RPCBPROC_DUMP; rpcbind_test
// in tests/command tests that against a real rpcbind.
#ifndef POLLUX_ONCRPC_RPCBIND_H_
#define POLLUX_ONCRPC_RPCBIND_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "oncrpc/stream_client.h"
#include "stack/base/socket_address.h"

namespace pollux::oncrpc {

// A connection to an rpcbind through the kernel's sockets. Calls block for up to kTimeoutSeconds
// each, so they must not be made on a polled core. Not thread-safe.
class RpcBind {
 public:
  static constexpr int kTimeoutSeconds = 5;
  static constexpr size_t kMaxReply = 256 * 1024;  // bytes: a list of about 4,000 services
  static constexpr uint16_t kPort = 111;
  static constexpr char kSocket[] = "/run/rpcbind.sock";

  // Connects to this host's rpcbind, the only one that accepts registrations from this host.
  // Unavailable, with a remedy, if none runs.
  static absl::StatusOr<RpcBind> Local(const std::string& socket = kSocket);
  // Connects to another host's rpcbind by TCP. Unavailable if it cannot be reached.
  static absl::StatusOr<RpcBind> At(const Gid& host, uint16_t port = kPort);

  // The transport of a program: RPC-over-RDMA, or the kernel's TCP or UDP.
  enum class Transport { kRdma, kTcp, kUdp };

  // Registers a program (RPCBPROC_SET) and replaces a registration that an earlier process left.
  // PermissionDenied if the program and version belong to another user.
  absl::Status Register(uint32_t program, uint32_t version, const SocketAddress& at,
                        Transport transport = Transport::kRdma);
  // Removes the registration for the IP version of `address` (RPCBPROC_UNSET). NotFound if there is
  // none.
  absl::Status Unregister(uint32_t program, uint32_t version, const Gid& address,
                          Transport transport = Transport::kRdma);
  // Returns the address at which the program is served for the IP version of `host`. If it is
  // registered at any address (0.0.0.0 or ::), the result's address is `host`; if `host` is such an
  // address itself, the result is the registered address. NotFound if it is not registered,
  // Unavailable if rpcbind does not answer or the registered address is invalid.
  absl::StatusOr<SocketAddress> Find(uint32_t program, uint32_t version, const Gid& host,
                                     Transport transport = Transport::kRdma);

  // Whether a service accepts TCP connections at an address, which may be that of a registration
  // that a process left behind. Zero stands for this host. Blocks for up to kTimeoutSeconds.
  static bool IsServedByTcp(const SocketAddress& at);

 private:
  RpcBind(Fd socket, std::string name);
  // Returns the results of a successful call, valid until the next call. `what` names the procedure
  // in errors. Unavailable if there is no reply.
  absl::StatusOr<absl::Span<const uint8_t>> Call(uint32_t procedure, const char* what,
                                                 absl::Span<const uint8_t> arguments);
  // Calls SET or UNSET and returns its result.
  absl::StatusOr<bool> Change(uint32_t procedure, uint32_t program, uint32_t version,
                              const std::string& netid, const std::string& address);

  std::string name_;  // of the rpcbind, for error messages
  StreamClient client_;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RPCBIND_H_
