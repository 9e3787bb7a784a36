// The portmapper for a host that runs no rpcbind. It reports only this server's programs and
// accepts no registrations. RFC 1833
#ifndef POLLUX_ONCRPC_PORTMAP_CALLS_H_
#define POLLUX_ONCRPC_PORTMAP_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "oncrpc/portmap.h"
#include "oncrpc/service_call.h"

namespace pollux::oncrpc {

// Immutable after construction; any thread may use it.
class PortmapCalls {
 public:
  static constexpr size_t kMaxCallBytes = 2048;  // with the RPC header
  static constexpr ServiceProgram kProgram = {
      .program = kPortmapProgram, .low = kPortmapV2, .high = kRpcbindV4};

  enum class Transport { kTcp, kUdp, kRdma };
  // One served program. It is served at every address of the host.
  struct Service {
    uint32_t program = 0;
    uint32_t version = 0;
    Transport transport = Transport::kTcp;
    uint16_t port = 0;
  };
  explicit PortmapCalls(std::vector<Service> services) : services_(std::move(services)) {}

  // Answers the call before it returns. Any thread.
  void Serve(ServiceCall call) const;

 private:
  // Returns null if there is no such service.
  const Service* Find(uint32_t program, uint32_t version, Transport transport) const;
  void Getport(ServiceCall call) const;
  void Getaddr(ServiceCall call) const;
  void Dump(ServiceCall call) const;

  std::vector<Service> services_;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_PORTMAP_CALLS_H_
