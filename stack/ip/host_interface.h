// The kernel's side of an interface that it keeps: Pollux uses the interface's addresses, routes
// and neighbours, and asks the kernel to resolve neighbours and to join groups.
#ifndef POLLUX_STACK_IP_HOST_INTERFACE_H_
#define POLLUX_STACK_IP_HOST_INTERFACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "stack/base/address.h"
#include "stack/base/types.h"
#include "stack/ip/routes.h"

namespace pollux::ip {

// The kernel's state of one interface. Always untagged: a VLAN device is a separate interface.
struct KernelState {
  MacAddress mac{};
  uint16_t mtu = 0;
  uint32_t index = 0;  // the interface's index
  bool up = false;
  std::vector<InterfaceAddress> addresses;  // link-local ones first, as in Linux's GID tables
  std::vector<Route> routes;
  std::string qdisc;  // the kind of its root queueing discipline
  friend bool operator==(const KernelState&, const KernelState&) = default;
};

// A neighbour whose link-layer address in the kernel's table is valid.
struct KernelNeighbour {
  Gid address;
  MacAddress mac{};
  friend bool operator==(const KernelNeighbour&, const KernelNeighbour&) = default;
};

// Owned by the program, used by the worker that owns the interface. All calls make system calls:
// Poll() is called every kPollNs, the others when neighbours are resolved and groups change.
class HostInterface {
 public:
  // The interval at which the kernel is polled: a change of an address or route, and the answer to
  // a solicitation, are noticed at most this much later.
  static constexpr uint64_t kPollNs = 5'000'000;

  virtual ~HostInterface() = default;
  // Processes the kernel's notifications since the last call and appends neighbours to `found`.
  // Returns true if state() has changed.
  virtual bool Poll(std::vector<KernelNeighbour>* found) = 0;
  virtual const KernelState& state() const = 0;
  // Makes the kernel find or confirm the link-layer address of `target`; Poll() returns the result.
  virtual void Solicit(const Gid& target) = 0;
  // Makes the kernel join or leave a group on the interface and report that on the wire.
  virtual absl::Status Join(const Gid& group) = 0;
  virtual absl::Status Leave(const Gid& group) = 0;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_HOST_INTERFACE_H_
