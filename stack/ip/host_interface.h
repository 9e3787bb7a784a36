// The kernel's part in an interface that it keeps: Pollux uses its addresses, routes and
// neighbours, and asks it for more.
#ifndef POLLUX_STACK_IP_HOST_INTERFACE_H_
#define POLLUX_STACK_IP_HOST_INTERFACE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "stack/base/address.h"
#include "stack/base/types.h"
#include "stack/ip/routes.h"

namespace pollux::ip {

// What the kernel has of one interface. Untagged: a VLAN device is an interface of its own.
struct KernelState {
  MacAddress mac{};
  uint16_t mtu = 0;
  uint32_t index = 0;  // of the interface
  bool up = false;
  std::vector<InterfaceAddress> addresses;  // link-local ones first, as in Linux's GID tables
  std::vector<Route> routes;
  friend bool operator==(const KernelState&, const KernelState&) = default;
};

// A neighbour whose link-layer address the kernel holds for good.
struct KernelNeighbour {
  Gid address;
  MacAddress mac{};
  friend bool operator==(const KernelNeighbour&, const KernelNeighbour&) = default;
};

// Owned by the program, used by the worker that owns the interface. Calls make system calls: Poll()
// comes at kPollNs, the others when neighbours are asked for and groups change.
class HostInterface {
 public:
  // How old the kernel's news may be: addresses and routes change by hand, and an answer to a
  // solicitation waits this long at most.
  static constexpr uint64_t kPollNs = 5'000'000;

  virtual ~HostInterface() = default;
  // Takes in the news since the last call; appends neighbours to `found`. True when state() is
  // another.
  virtual bool Poll(std::vector<KernelNeighbour>* found) = 0;
  virtual const KernelState& state() const = 0;
  // Has the kernel find or confirm the link-layer address of `target`; what it says comes by
  // Poll().
  virtual void Solicit(const Gid& target) = 0;
  // Has the kernel join and leave a group on the interface, and say so on the wire.
  virtual absl::Status Join(const Gid& group) = 0;
  virtual absl::Status Leave(const Gid& group) = 0;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_HOST_INTERFACE_H_
