// One port as a host on its network: its MAC and addresses, its neighbours and routes, and the
// frames that are not RoCE (ARP, ICMP echo).
#ifndef POLLUX_STACK_NET_INTERFACE_H_
#define POLLUX_STACK_NET_INTERFACE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stack/base/types.h"
#include "stack/net/neighbours.h"
#include "stack/net/routes.h"
#include "stack/transport/poll_context.h"
#include "stack/verbs/address_handle.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"

struct rte_mbuf;

namespace pollux::net {

struct InterfaceConfig {
  MacAddress mac{};
  uint32_t address = 0;             // IPv4, host order
  uint8_t prefix_length = 24;       // 0..32
  std::optional<uint32_t> gateway;  // for what is not on the link
  uint16_t mtu = 1500;              // what the port really carries, IP header and up
};

// Frames that are not RoCE. Those dropped are counted in transport::Counters too, by reason.
struct InterfaceCounters {
  uint64_t arp_requests_sent = 0;
  uint64_t arp_replies_sent = 0;
  uint64_t arp_rcvd = 0;
  uint64_t arp_learned = 0;
  uint64_t arp_ignored = 0;    // malformed, about others, or an answer to no question
  uint64_t arp_conflicts = 0;  // another host uses our address
  uint64_t echo_replies_sent = 0;
  uint64_t echo_ignored = 0;  // malformed, or not a request
  uint64_t echo_limited = 0;  // beyond the rate
};

// Linux's rule: MTU less 96 (the longest headers), rounded down to 256, 512, ... 4096.
// FailedPrecondition when not even 256 fits.
absl::StatusOr<ibv_mtu> PathMtu(uint16_t mtu);

// The first call of OnDeadline() sends an ARP probe for the interface's own address, and an
// announcement follows when nobody else claims it (RFC 5227); conflict() tells who does.
//
// Owned by the worker that polls the port (worker 0 where several do): its table of neighbours is
// written there; LinkAddress values are read anywhere.
class Interface : public transport::Resolver, private Solicitor {
 public:
  static constexpr uint64_t kProbeNs = 500'000'000;     // from probe to announcement
  static constexpr uint32_t kEchoBurst = 64;            // echo replies at once
  static constexpr uint64_t kEchoIntervalNs = 100'000;  // and one more for each of these

  explicit Interface(const InterfaceConfig& config);

  const InterfaceConfig& config() const { return config_; }
  // GID table; index 0 is ::ffff:address (RoCE v2). InvalidArgument past the end.
  absl::StatusOr<Gid> QueryGid(int index) const;
  // PathMtu(config().mtu), 256 at least.
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
  // Builds an address handle; its `link` may be unresolved, resolution is then under way. The
  // link is referenced until Release(), once per handle made. Hop limit 0 means 64.
  // InvalidArgument (no GRH, GID index, destination), NotFound (no route), ResourceExhausted
  // (NeighbourTable::kMaxNeighbours referenced).
  absl::StatusOr<verbs::AddressHandle> MakeAddressHandle(const ibv_ah_attr& attr,
                                                         transport::PollContext& context);
  void Release(const verbs::AddressHandle& handle) { neighbours_.Release(handle.link); }
  // At most NeighbourTable::kMaxWaiting frames a neighbour; the oldest dropped and counted.
  void SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                        transport::PollContext& context) override;

  // Frees the frames that wait for a neighbour. For the end, before the pools go.
  void Clear() { neighbours_.Clear(); }

  // Retries, ageing. `deadline_ns` as Endpoint's.
  uint64_t deadline_ns() const;
  void OnDeadline(transport::PollContext& context);

  // The MAC of the last host that claimed this interface's address.
  const std::optional<MacAddress>& conflict() const { return conflict_; }
  const InterfaceCounters& counters() const { return counters_; }
  const NeighbourTable& neighbours() const { return neighbours_; }

 private:
  enum class Claim : uint8_t { kNotBegun, kProbing, kDone };

  void Solicit(const Gid& target, const MacAddress* unicast,
               transport::PollContext& context) override;
  void OnArp(const uint8_t* p, size_t length, transport::PollContext& context);
  void OnIpv4(const wire::EthernetHeader& ethernet, const uint8_t* p, size_t length,
              transport::PollContext& context);
  void OnIcmp(const wire::EthernetHeader& ethernet, const wire::Ipv4Header& ip, const uint8_t* p,
              transport::PollContext& context);
  void SendArp(const wire::ArpPacket& packet, const MacAddress& to,
               transport::PollContext& context);
  bool TakeEchoToken(uint64_t now_ns);

  InterfaceConfig config_;
  Gid gid_;
  Routes routes_;
  NeighbourTable neighbours_;
  InterfaceCounters counters_;
  std::optional<MacAddress> conflict_;
  Claim claim_ = Claim::kNotBegun;
  uint64_t claim_deadline_ns_ = 0;
  uint64_t echo_paid_until_ns_ = 0;
  uint16_t identification_ = 0;
};

}  // namespace pollux::net

#endif  // POLLUX_STACK_NET_INTERFACE_H_
