// What rpcbind (RFC 1833) is asked about services that are reached through RPC-over-RDMA: to
// register them, and where they are. libtirpc's rpcb_set() and rpcb_getaddr() know only the netids
// of /etc/netconfig, which has no RDMA, and its calls end only when the other side lets them; and
// RPCBPROC_GETADDR answers for the transport by which it is asked, whatever netid its argument has
// (RFC 1833 section 2.2.1): it says nothing where a program is served by RDMA alone, and names the
// TCP port where it is served by both. So a service is found by RPCBPROC_DUMP, which rpcbind_test
// in tests/command shows against a real rpcbind.
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

// A connection to an rpcbind through the kernel. Its calls block, for up to kTimeoutSeconds each
// whatever comes back: not for a polled core. Not to be shared by threads.
class RpcBind {
 public:
  static constexpr int kTimeoutSeconds = 5;
  static constexpr size_t kMaxReply = 256 * 1024;  // bytes: a list of some 4,000 services
  static constexpr uint16_t kPort = 111;
  static constexpr char kSocket[] = "/run/rpcbind.sock";

  // This host's, the only one that registers for us. Unavailable, with what to do, when none runs.
  static absl::StatusOr<RpcBind> Local(const std::string& socket = kSocket);
  // Another host's, by TCP. Unavailable when it cannot be reached.
  static absl::StatusOr<RpcBind> At(const Gid& host, uint16_t port = kPort);

  // By which a program is served: RPC-over-RDMA, or the kernel's TCP and UDP.
  enum class Transport { kRdma, kTcp, kUdp };

  // RPCBPROC_SET, in place of what an earlier process may have left. PermissionDenied when the
  // program and version are somebody else's.
  absl::Status Register(uint32_t program, uint32_t version, const SocketAddress& at,
                        Transport transport = Transport::kRdma);
  // RPCBPROC_UNSET of what is registered for the IP version of `address`. NotFound when nothing is.
  absl::Status Unregister(uint32_t program, uint32_t version, const Gid& address,
                          Transport transport = Transport::kRdma);
  // Where the program is served for the IP version of `host`. An address of 0.0.0.0 or ::, any of
  // its host, is returned as `host`. NotFound when the program has no such registration.
  absl::StatusOr<SocketAddress> Find(uint32_t program, uint32_t version, const Gid& host,
                                     Transport transport = Transport::kRdma);

 private:
  RpcBind(Fd socket, std::string name);
  // The results of a call that succeeded, until the next; `what` names the procedure in errors.
  // Unavailable when there are none.
  absl::StatusOr<absl::Span<const uint8_t>> Call(uint32_t procedure, const char* what,
                                                 absl::Span<const uint8_t> arguments);
  // SET or UNSET: what it answered.
  absl::StatusOr<bool> Change(uint32_t procedure, uint32_t program, uint32_t version,
                              const std::string& netid, const std::string& address);

  std::string name_;  // of the rpcbind, for errors
  StreamClient client_;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RPCBIND_H_
