// What rpcbind (RFC 1833) is asked about services that are reached through RPC-over-RDMA: to
// register them, and where they are. libtirpc's rpcb_set() and rpcb_getaddr() know only the netids
// of /etc/netconfig, which has no RDMA; and RPCBPROC_GETADDR answers for the transport by which it
// is asked, whatever netid its argument has, so that a service is found by RPCBPROC_DUMP instead.
#ifndef POLLUX_RPCRDMA_RPCBIND_H_
#define POLLUX_RPCRDMA_RPCBIND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cm/manager.h"

namespace pollux::rpcrdma {

// A connection to an rpcbind through the kernel. Its calls block, for up to kTimeoutSeconds each:
// not for a polled core. Not to be shared by threads.
class RpcBind {
 public:
  static constexpr int kTimeoutSeconds = 5;
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
  absl::Status Register(uint32_t program, uint32_t version, const cm::Endpoint& at,
                        Transport transport = Transport::kRdma);
  // RPCBPROC_UNSET of what is registered for the IP version of `address`. NotFound when nothing is.
  absl::Status Unregister(uint32_t program, uint32_t version, const Gid& address,
                          Transport transport = Transport::kRdma);
  // Where the program is served for the IP version of `host`. An address of 0.0.0.0 or ::, any of
  // its host, is returned as `host`. NotFound when the program has no such registration.
  absl::StatusOr<cm::Endpoint> Find(uint32_t program, uint32_t version, const Gid& host,
                                    Transport transport = Transport::kRdma);

 private:
  struct Closer {
    void operator()(void* client) const;
  };
  RpcBind(void* client, std::string name) : client_(client), name_(std::move(name)) {}
  // `fd` is connected; it is the client's from here on.
  static absl::StatusOr<RpcBind> Over(int fd, std::string name);
  absl::Status Failure(absl::string_view procedure) const;
  // SET or UNSET: what it answered.
  absl::StatusOr<bool> Change(uint32_t procedure, uint32_t program, uint32_t version,
                              const std::string& netid, const std::string& address);

  std::unique_ptr<void, Closer> client_;  // a CLIENT, whose header is no good neighbour
  std::string name_;                      // of the rpcbind, for errors
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RPCBIND_H_
