// Binds local addresses and ports, starts listeners, and resolves the address of and route to a
// peer.
#ifndef POLLUX_CM_CONNECTION_ADDRESS_RESOLUTION_H_
#define POLLUX_CM_CONNECTION_ADDRESS_RESOLUTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "cm/connection/parts.h"

namespace pollux::cm {

// The functions implement those of Manager. Owned by the manager, on its core.
class AddressResolution {
 public:
  explicit AddressResolution(Parts* parts) : parts_(*parts), context_(parts->context) {}

  absl::Status BindAddr(CmConnection& connection, const SocketAddress& local);
  absl::Status SetReuseAddress(CmConnection& connection, bool reuse);
  absl::Status SetIpv6Only(CmConnection& connection, bool only);
  absl::Status Listen(CmConnection& connection, uint16_t port, uint32_t backlog,
                      Placement placement);
  absl::Status ResolveAddr(CmConnection& connection, const SocketAddress& destination,
                           uint32_t timeout_ms);
  absl::Status ResolveRoute(CmConnection& connection);
  absl::Status SetTypeOfService(CmConnection& connection, uint8_t type_of_service);
  Path QueryPath(const CmConnection& connection) const;

  bool Poll();  // returns whether it did anything
  bool resolves() const { return !resolving_.empty(); }
  void OnTimeout(CmConnection& connection);

 private:
  absl::Status Bind(CmConnection& connection, const SocketAddress& local,
                    PortTable::Use use = PortTable::Use::kMayListen);
  void Resolved(CmConnection& connection);

  Parts& parts_;
  Context& context_;
  std::vector<uint32_t> resolving_;  // communication IDs
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_ADDRESS_RESOLUTION_H_
