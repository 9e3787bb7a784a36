// One port as a host on its network: its MAC and addresses, its neighbours and routes, its groups,
// and the frames that are not RoCE (ARP, neighbour discovery, echo, IGMP and MLD).
#ifndef POLLUX_STACK_IP_INTERFACE_H_
#define POLLUX_STACK_IP_INTERFACE_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
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
  // Without the link-local ones; in the order that their GIDs take.
  std::vector<InterfaceAddress> addresses;
  // Default routes, for what is not on the link: one of each IP version at most.
  std::vector<Gid> gateways;
  // Whether it has the link-local address that follows from its MAC (RFC 4291, appendix A), on each
  // VLAN that it has an address on, as a Linux interface with IPv6 does: first in the GID table.
  bool link_local = false;
  uint16_t mtu = 1500;  // what the port really carries, IP header and up
  // Whether it speaks for its addresses: probes and announces them, answers ARP, neighbour
  // solicitations and echo. Of several workers with the same addresses one does; the others ask for
  // neighbours, learn what they hear, and report the groups that they have joined themselves.
  bool answers = true;
};
// InvalidArgument when a prefix length or VLAN ID is out of range, an address is no host's or there
// twice, or there are more than GidTable::kMaxGids with the link-local ones.
absl::Status CheckConfig(const InterfaceConfig& config);

// Linux's rule: MTU less 96 (the longest headers), rounded down to 256, 512, ... 4096.
// FailedPrecondition when not even 256 fits.
absl::StatusOr<ibv_mtu> PathMtu(uint16_t mtu);

// The first call of OnDeadline() asks whether anyone else has the interface's addresses (RFC 5227,
// RFC 4862), and announcements follow when nobody claims them; conflict() tells who does.
//
// Owned by one worker: its tables are written there; LinkAddress values are read anywhere. Workers
// that share a port have one each (InterfaceConfig::answers).
class Interface : public transport::Resolver, private Solicitor {
 public:
  static constexpr uint64_t kProbeNs = 500'000'000;  // from probe to announcement

  // `config` has passed CheckConfig(). With `kernel` (not owned, outlives this) the interface is
  // the kernel's: MAC, addresses, routes and neighbours are as the kernel has them and change with
  // it (those of `config` are ignored, its MTU is a bound), the kernel asks for neighbours and
  // joins groups, and frames that are not RoCE are left to it.
  explicit Interface(const InterfaceConfig& config, HostInterface* kernel = nullptr);

  const InterfaceConfig& config() const { return config_; }
  // The GID table, as ibv_query_gid and ibv_query_gid_ex know it: link-local addresses first, IPv4
  // addresses as ::ffff:a.b.c.d, all of type RoCE v2. InvalidArgument past the end and for an empty
  // place.
  absl::StatusOr<Gid> QueryGid(int index) const;
  absl::StatusOr<ibv_gid_entry> QueryGidEx(uint32_t index) const;
  uint32_t gid_table_size() const { return host_.gids.size(); }
  // The VLAN of a GID; kNoVlan without one.
  uint16_t GidVlan(uint32_t index) const { return host_.gids.at(index).vlan; }
  // The index from which packets to `destination` are sent best (RFC 6724). Errors as Resolve()'s.
  absl::StatusOr<uint8_t> SourceIndex(const Gid& destination) const;
  // The first place of `address` in the table, on any VLAN; nothing when it is not this
  // interface's.
  std::optional<uint8_t> GidIndex(const Gid& address) const;
  // PathMtu(config().mtu), 256 at least.
  ibv_mtu active_mtu() const;

  // Everything that is not a RoCE packet for one of this interface's addresses: answered, learned
  // from, or dropped and counted. Takes over `frame`.
  void OnFrame(rte_mbuf* frame, transport::PollContext& context);
  // Whether a RoCE packet's destination MAC, VLAN and IP address are this interface's. `frame` has
  // an IP header.
  bool IsOurs(const uint8_t* frame, const Gid& destination) const;
  // The same, for every packet: without a look-up when its addresses are those of the last one.
  [[gnu::always_inline]] bool IsOurs(const wire::RocePacket& packet) {
    if (ours_.AreOf(packet)) [[likely]]
      return true;
    return LookUpOurs(packet);
  }
  // Changes whenever the answer of IsOurs() may change for any packet.
  uint32_t address_version() const { return address_version_; }
  // Whether they are those of a group, on a VLAN on which this interface has an address. The group
  // need not be joined: ibv_attach_mcast alone takes in what others of this host have joined.
  bool IsOfGroup(const uint8_t* frame, const Gid& destination) const;

  // Resolves the next hop towards `destination` (gateway when off the link) and calls `done` once,
  // from inside this call when known already, with OK or Unavailable ("no answer to ARP for ...",
  // after 3 requests, 1 s apart), or at once with InvalidArgument/NotFound ("no route to ...").
  void Resolve(const Gid& destination, transport::PollContext& context,
               absl::AnyInvocable<void(absl::Status)> done);
  // Builds an address handle; its `link` may be unresolved, resolution is then under way. The
  // link is referenced until Release(), once per handle made. Hop limit 0 means 64. On a VLAN the
  // priority is the service level, or, when that is 0, the upper three bits of the traffic class
  // (RFC 2474 section 4.2.2). A group needs no resolution, and need not be joined.
  // InvalidArgument (no GRH, GID index, destination, IP versions that differ), NotFound (no route),
  // ResourceExhausted (NeighbourTable::kMaxNeighbours referenced).
  absl::StatusOr<verbs::AddressHandle> MakeAddressHandle(const ibv_ah_attr& attr,
                                                         transport::PollContext& context);
  void Release(const verbs::AddressHandle& handle) { host_.neighbours.Release(handle.link); }
  // At most NeighbourTable::kMaxWaiting frames a neighbour; the oldest dropped and counted.
  void SendWhenResolved(const verbs::LinkAddress* link, rte_mbuf* frame,
                        transport::PollContext& context) override;
  void Suspect(const verbs::LinkAddress* link, transport::PollContext& context) override;
  // As NeighbourTable's.
  void SetProgressSource(absl::AnyInvocable<void(NeighbourTable::ProgressReport)> source) {
    host_.neighbours.SetProgressSource(std::move(source));
  }

  // Joins a group, of IPv4 (::ffff:a.b.c.d) or IPv6, on one VLAN: routers and switches are told
  // (IGMPv3, MLDv2), and its packets are taken in. Each call asks for one LeaveMulticast(). Errors
  // as Groups'.
  absl::Status JoinMulticast(const Gid& group, transport::PollContext& context,
                             uint16_t vlan = kNoVlan);
  absl::Status LeaveMulticast(const Gid& group, transport::PollContext& context,
                              uint16_t vlan = kNoVlan);

  // Frees the frames that wait for a neighbour. For the end, before the pools go.
  void Clear() { host_.neighbours.Clear(); }

  // Retries, ageing. `deadline_ns` as Endpoint's.
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

  // The last host that claimed one of this interface's addresses.
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
  // Whether a frame to this IP address, with this destination MAC, is for this interface.
  bool IsFor(const wire::EthernetHeader& ethernet, const Gid& destination) const;
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
  wire::AddressWords ours_;  // of the last packet that was found to be for this host
  uint32_t address_version_ = 1;
  Claim claim_ = Claim::kNotBegun;
  uint64_t claim_deadline_ns_ = 0;
  uint64_t kernel_poll_ns_ = NeighbourTable::kNever;
  std::vector<KernelNeighbour> found_;  // by the kernel, during FollowKernel()
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_INTERFACE_H_
