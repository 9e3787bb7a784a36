// One port as a host on its network: its MAC and addresses, its neighbours and routes, and the
// frames that are not RoCE (ARP, ICMP echo).
#ifndef POLLUX_STACK_NET_INTERFACE_H_
#define POLLUX_STACK_NET_INTERFACE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stack/base/types.h"
#include "stack/transport/poll_context.h"
#include "stack/verbs/address_handle.h"

struct rte_mbuf;

namespace pollux::net {

struct InterfaceConfig {
  MacAddress mac{};
  uint32_t address = 0;             // IPv4, host order
  uint8_t prefix_length = 24;       // 0..32
  std::optional<uint32_t> gateway;  // for what is not on the link
  uint16_t mtu = 1500;              // what the port really carries, IP header and up
};

// Owned by the worker that polls the port (worker 0 where several do): its table of neighbours is
// written there; LinkAddress values are read anywhere.
class Interface {
 public:
  explicit Interface(const InterfaceConfig& config);
  ~Interface();

  const InterfaceConfig& config() const { return config_; }
  // GID table; index 0 is ::ffff:address (RoCE v2). InvalidArgument past the end.
  absl::StatusOr<Gid> QueryGid(int index) const;
  // The largest path MTU that fits the port. Linux's rule: MTU less 96, rounded down to
  // 256, 512, ... 4096; FailedPrecondition when not even 256 fits. wire-level fact: 1500 -> 1024.
  ibv_mtu active_mtu() const;

  // Everything that is not a RoCE packet for one of this interface's addresses: answered, learned
  // from, or dropped and counted. Takes over `frame`.
  void OnFrame(rte_mbuf* frame, transport::PollContext& context);
  // Whether a RoCE packet's destination MAC and IP address are this interface's.
  bool IsOurs(const uint8_t* frame, const Gid& destination) const;

  // Resolves the next hop towards `destination` (gateway when off the link) and calls `done` once,
  // from inside this call when known already, with OK or Unavailable ("no answer to ARP for ...",
  // after 3 requests, 1 s apart), or at once with InvalidArgument/NotFound ("no route to ...").
  void Resolve(const Gid& destination, transport::PollContext& context,
               absl::AnyInvocable<void(absl::Status)> done);
  // Builds an address handle; its `link` may be unresolved, resolution is then under way.
  absl::StatusOr<verbs::AddressHandle> MakeAddressHandle(const ibv_ah_attr& attr,
                                                         transport::PollContext& context);
  // Queues a finished frame, but for its destination MAC, until `link` is resolved; at most
  // kMaxWaiting a neighbour, the oldest dropped and counted. Takes over `frame`.
  void SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                        transport::PollContext& context);

  // Retries, ageing. `deadline_ns` as Endpoint's.
  uint64_t deadline_ns() const;
  void OnDeadline(transport::PollContext& context);
};

}  // namespace pollux::net

#endif  // POLLUX_STACK_NET_INTERFACE_H_
