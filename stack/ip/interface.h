// One port as a host on its network: its MAC and addresses, its neighbours and routes, its groups,
// and the frames that are not RoCE (ARP, neighbour discovery, echo, IGMP and MLD).
#ifndef POLLUX_STACK_IP_INTERFACE_H_
#define POLLUX_STACK_IP_INTERFACE_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/address.h"
#include "stack/base/types.h"
#include "stack/ip/arp_speaker.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/groups.h"
#include "stack/ip/host_interface.h"
#include "stack/ip/host_state.h"
#include "stack/ip/nd_speaker.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/address_handle.h"
#include "stack/wire/address_words.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/roce_packet.h"

struct rte_mbuf;

namespace pollux::ip {

struct InterfaceConfig {
  MacAddress mac{};
  // Without link-local addresses; in the order of their GIDs.
  std::vector<InterfaceAddress> addresses;
  // Default routes for destinations that are not on the link: at most one per IP version.
  std::vector<Gid> gateways;
  // Whether it has the link-local address derived from its MAC (RFC 4291, appendix A) on each VLAN
  // on which it has an address, as a Linux interface with IPv6 does. These come first in the GID
  // table.
  bool link_local = false;
  uint16_t mtu = 1500;  // what the port really carries, from the IP header on
  // Whether it answers for its addresses: probes and announces them, and answers ARP, neighbour
  // solicitations and echo. Of several workers with the same addresses one does; the others resolve
  // neighbours, learn from received packets, and report the groups that they have joined
  // themselves.
  bool answers = true;
  // Shared by the copies of a configuration: make all interfaces of one port, and no others, from
  // copies of one configuration.
  std::shared_ptr<PortGroups> groups = std::make_shared<PortGroups>();
};
// Returns InvalidArgument if a prefix length or VLAN ID is out of range, an address is not a host
// address or is given twice, or there are more than GidTable::kMaxGids addresses, link-local ones
// included.
absl::Status CheckConfig(const InterfaceConfig& config);

// Linux's rule: MTU less 96 (the longest headers), rounded down to 256, 512, ... 4096. Returns
// FailedPrecondition if even 256 does not fit.
absl::StatusOr<ibv_mtu> PathMtu(uint16_t mtu);

// The first call of OnDeadline() probes whether another host has the interface's addresses (RFC
// 5227, RFC 4862). Addresses that no other host claims are then announced; conflict() returns the
// latest claim.
//
// Owned by one worker, which alone writes its tables; LinkAddress values may be read on any thread.
// Workers that share a port have one each (InterfaceConfig::answers).
class Interface : public transport::Resolver, private Solicitor {
 public:
  static constexpr uint64_t kProbeNs = 500'000'000;  // from probe to announcement

  // `config` must have passed CheckConfig(). With `kernel` (not owned, outlives this) the kernel
  // keeps the interface: its MAC, addresses, routes and neighbours are the kernel's and change with
  // it (those of `config` are ignored, its MTU is an upper limit). The kernel resolves neighbours,
  // joins groups and handles the frames that are not RoCE.
  explicit Interface(const InterfaceConfig& config, HostInterface* kernel = nullptr);

  const InterfaceConfig& config() const { return config_; }
  // The GID table, as returned by ibv_query_gid and ibv_query_gid_ex: link-local addresses first,
  // IPv4 addresses as ::ffff:a.b.c.d, all of type RoCE v2. Returns InvalidArgument for an index
  // past the end or an empty entry.
  absl::StatusOr<Gid> QueryGid(int index) const;
  absl::StatusOr<ibv_gid_entry> QueryGidEx(uint32_t index) const;
  uint32_t gid_table_size() const { return host_.gids.size(); }
  // The VLAN of a GID; kNoVlan if it has none.
  uint16_t GidVlan(uint32_t index) const { return host_.gids.at(index).vlan; }
  // The best source GID index for packets to `destination` (RFC 6724). Errors as for Resolve().
  absl::StatusOr<uint8_t> SourceIndex(const Gid& destination) const;
  // The first index of `address` in the table, on any VLAN; nothing if it is not one of this
  // interface's.
  std::optional<uint8_t> GidIndex(const Gid& address) const;
  // PathMtu(config().mtu), but at least 256.
  ibv_mtu active_mtu() const;

  // Handles every frame that is not a RoCE packet for one of this interface's addresses: answers
  // it, learns from it, or drops and counts it. Takes over `frame`.
  void OnFrame(rte_mbuf* frame, transport::PollContext& context);
  // Whether a RoCE packet's destination MAC, VLAN and IP address are this interface's. `frame` must
  // have an IP header.
  bool IsOurs(const uint8_t* frame, const Gid& destination) const;
  // The same, for every packet: needs no look-up if its addresses are those of the previous packet.
  [[gnu::always_inline]] bool IsOurs(const wire::RocePacket& packet) {
    if (ours_.AreOf(packet)) [[likely]]
      return true;
    return LookUpOurs(packet);
  }
  // Changes whenever the result of IsOurs() may change for any packet.
  uint32_t address_version() const { return address_version_; }
  // Whether they are those of a multicast group, on a VLAN on which this interface has an address.
  // The group need not be joined: ibv_attach_mcast alone is enough to receive what others on this
  // host have joined.
  bool IsOfGroup(const uint8_t* frame, const Gid& destination) const;

  // Resolves the next hop to `destination` (a gateway if it is off the link) and calls `done` once:
  // before returning if the next hop is known, or on InvalidArgument and NotFound ("no route to
  // ..."); otherwise later, with OK or Unavailable ("no answer to ARP for ...", after 3 requests, 1
  // s apart).
  void Resolve(const Gid& destination, transport::PollContext& context,
               absl::AnyInvocable<void(absl::Status)> done);
  // Creates an address handle. Its `link` may be unresolved; resolution is then in progress. The
  // link is referenced until Release(), once per handle. Hop limit 0 means 64. On a VLAN the
  // priority is the service level or, if that is 0, the upper three bits of the traffic class (RFC
  // 2474 section 4.2.2). A multicast group needs no resolution and need not be joined. Errors:
  // InvalidArgument (no GRH, GID index, destination, IP versions that differ), NotFound (no route),
  // ResourceExhausted (NeighbourTable::kMaxNeighbours referenced).
  absl::StatusOr<verbs::AddressHandle> MakeAddressHandle(const ibv_ah_attr& attr,
                                                         transport::PollContext& context);
  void Release(const verbs::AddressHandle& handle) { host_.neighbours.Release(handle.link); }
  // Queues at most NeighbourTable::kMaxWaiting frames per neighbour; beyond that the oldest is
  // dropped and counted.
  void SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                        transport::PollContext& context) override;
  void Suspect(const verbs::LinkAddress* link, transport::PollContext& context) override;
  // As NeighbourTable::SetProgressSource().
  void SetProgressSource(absl::AnyInvocable<void(NeighbourTable::ProgressReport)> source) {
    host_.neighbours.SetProgressSource(std::move(source));
  }

  // Joins an IPv4 (::ffff:a.b.c.d) or IPv6 group on one VLAN: reports that to routers and switches
  // (IGMPv3, MLDv2), and receives the group's packets. Each call needs one LeaveMulticast(). A
  // leave is reported if no interface of the port is a member any more. Errors as for
  // Groups::Join() and Leave().
  absl::Status JoinMulticast(const Gid& group, transport::PollContext& context,
                             uint16_t vlan = kNoVlan);
  absl::Status LeaveMulticast(const Gid& group, transport::PollContext& context,
                              uint16_t vlan = kNoVlan);

  // Frees the frames that wait for a neighbour. Call it at shutdown, before the packet pools are
  // destroyed.
  void Clear() { host_.neighbours.Clear(); }

  // Retries and ageing. `deadline_ns` as for Endpoint.
  uint64_t deadline_ns() const {
    uint64_t deadline = claim_ == Claim::kDone ? NeighbourTable::kNever : claim_deadline_ns_;
    deadline = std::min(deadline, host_.neighbours.deadline_ns());
    deadline = std::min(deadline, groups_.deadline_ns());
    return std::min(deadline, kernel_poll_ns_);
  }
  void OnDeadline(transport::PollContext& context);
  // Whether deadline_ns() may have become earlier since the last call.
  bool TakeNewDeadline() {
    if (!host_.has_new_deadline) [[likely]]
      return false;
    host_.has_new_deadline = false;
    return true;
  }

  // The link has come up: a switch may have forgotten this host's groups, and another host may have
  // taken its addresses. Reports the groups again, and probes and announces the addresses.
  void OnLinkUp(transport::PollContext& context);

  // The latest host that claimed one of this interface's addresses.
  const std::optional<AddressConflict>& conflict() const { return host_.conflict; }
  const InterfaceCounters& counters() const { return host_.counters; }
  const NeighbourTable& neighbours() const { return host_.neighbours; }

 private:
  enum class Claim : uint8_t { kNotBegun, kProbing, kDone };

  void Solicit(const NeighbourAddress& target, const MacAddress* unicast,
               transport::PollContext& context) override;
  bool TakesMac(const MacAddress& destination) const;
  void OnIpv4(const wire::EthernetHeader& ethernet, const uint8_t* p, size_t length,
              transport::PollContext& context);
  void OnIpv6(const wire::EthernetHeader& ethernet, const uint8_t* p, size_t length,
              transport::PollContext& context);
  void OnIcmpv6(const wire::EthernetHeader& ethernet, const wire::Ipv6Header& ip, const uint8_t* p,
                size_t length, transport::PollContext& context);
  bool LookUpOurs(const wire::RocePacket& packet);
  std::optional<uint8_t> GroupSourceIndex(const Gid& group) const;
  bool IsDeprecated(const GidEntry& own) const;
  // Whether a frame to this IP address, with this destination MAC, is for this interface.
  bool IsFor(const wire::EthernetHeader& ethernet, const Gid& destination) const;
  void JoinOwnGroups(transport::PollContext& context);
  void ProbeAll(transport::PollContext& context);
  void AnnounceAll(transport::PollContext& context);
  void TakeKernelState();
  void FollowKernel(transport::PollContext& context);

  InterfaceConfig config_;
  HostInterface* kernel_;
  uint16_t port_mtu_;
  HostState host_;
  ArpSpeaker arp_;
  NdSpeaker nd_;
  EchoResponder echo_;
  Groups groups_;
  wire::AddressWords ours_;  // those of the last packet found to be for this host
  uint32_t address_version_ = 1;
  Claim claim_ = Claim::kNotBegun;
  uint64_t claim_deadline_ns_ = 0;
  uint64_t kernel_poll_ns_ = NeighbourTable::kNever;
  std::vector<KernelNeighbour> found_;  // by the kernel, during FollowKernel()
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_INTERFACE_H_
