// The portmapper of a host that runs no rpcbind: it tells where this server's programs are, and
// takes no others in. RFC 1833
#ifndef POLLUX_NFS_SERVER_PORTMAP_CALLS_H_
#define POLLUX_NFS_SERVER_PORTMAP_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nfs/server/control_call.h"
#include "oncrpc/portmap.h"

namespace pollux::nfs {

// Constant once made.
class PortmapCalls {
 public:
  static constexpr size_t kMaxCallBytes = 2048;  // with its RPC header
  static constexpr ControlProgram kProgram = {
      .program = oncrpc::kPortmapProgram, .low = oncrpc::kPortmapV2, .high = oncrpc::kRpcbindV4};

  enum class Transport { kTcp, kUdp, kRdma };
  // At every address of the host.
  struct Service {
    uint32_t program = 0;
    uint32_t version = 0;
    Transport transport = Transport::kTcp;
    uint16_t port = 0;
  };
  explicit PortmapCalls(std::vector<Service> services) : services_(std::move(services)) {}

  // Any thread.
  void Serve(ControlCall call) const;

 private:
  // Null when there is none.
  const Service* Find(uint32_t program, uint32_t version, Transport transport) const;
  void Getport(ControlCall call) const;
  void Getaddr(ControlCall call) const;
  void Dump(ControlCall call) const;

  std::vector<Service> services_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_PORTMAP_CALLS_H_
