// An interface that the kernel keeps: what is left to it, asked of it, and followed.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/ip/interface_fixture.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/multicast.h"
#include "stack/wire/neighbour_discovery.h"
#include "stack/wire/roce_packet.h"

namespace pollux::ip {
namespace {

constexpr uint32_t kGateway = Ip(10, 0, 0, 254);
const Gid kGroup = Gid::FromIpv4(Ip(225, 1, 2, 3));

class FakeKernel : public HostInterface {
 public:
  FakeKernel() {
    state_.mac = kOurMac;
    state_.mtu = 4400;
    state_.index = 5;
    state_.addresses = {InterfaceAddress::Ipv4(kOurs)};
  }
  bool Poll(std::vector<KernelNeighbour>* found) override {
    ++polls;
    found->insert(found->end(), news.begin(), news.end());
    news.clear();
    return std::exchange(changed, false);
  }
  const KernelState& state() const override { return state_; }
  void Solicit(const Gid& target) override { solicited.push_back(target); }
  absl::Status Join(const Gid& group) override {
    if (!group_status.ok()) return group_status;
    joined.push_back(group);
    return absl::OkStatus();
  }
  absl::Status Leave(const Gid& group) override {
    std::erase(joined, group);
    return absl::OkStatus();
  }

  KernelState state_;
  bool changed = false;
  int polls = 0;
  std::vector<KernelNeighbour> news;
  std::vector<Gid> solicited;
  std::vector<Gid> joined;
  absl::Status group_status;
};

struct WithKernel {
  FakeKernel kernel_;
};

class InterfaceKernelTest : private WithKernel, public InterfaceHost {
 protected:
  InterfaceKernelTest() : InterfaceHost({.mac = kPeerMac, .mtu = 2000}, &kernel_) {}
  using WithKernel::kernel_;
};

TEST_F(InterfaceKernelTest, ConfigurationComesFromTheKernel) {
  EXPECT_EQ(interface_.config().mac, kOurMac);
  EXPECT_EQ(interface_.config().mtu, 2000);
  ASSERT_EQ(interface_.gid_table_size(), 1u);
  EXPECT_EQ(interface_.QueryGidEx(0)->ndev_ifindex, 5u);
  Pass(kSecond);
  EXPECT_TRUE(link_.sent.empty());  // neither probes nor announcements
  const auto polls_a_second = static_cast<int>(kSecond / HostInterface::kPollNs);
  EXPECT_GE(kernel_.polls, polls_a_second);
  EXPECT_LE(kernel_.polls, polls_a_second + 2);
}

TEST_F(InterfaceKernelTest, LeavesArpAndEchoToTheKernel) {
  Arrive(Arp(wire::kArpRequest, kPeer, kPeerMac, kOurs));
  Arrive(Arp(wire::kArpReply, kOurs, kPeerMac, kOurs));
  Arrive(Echo(56));
  EXPECT_TRUE(link_.sent.empty());
  EXPECT_EQ(interface_.counters().left_to_kernel, 3u);
  EXPECT_FALSE(interface_.conflict().has_value());
  for (const uint64_t drops : counters_.drops) EXPECT_EQ(drops, 0u);
  EXPECT_EQ(io::FramesInUse(), 0u);
}

TEST_F(InterfaceKernelTest, NeighboursComeFromTheKernel) {
  EXPECT_FALSE(Resolve(kPeer).has_value());
  EXPECT_EQ(kernel_.solicited, std::vector{Gid::FromIpv4(kPeer)});
  EXPECT_TRUE(link_.sent.empty());
  kernel_.news = {{Gid::FromIpv4(kPeer + 1), kPeerMac}, {Gid::FromIpv4(kPeer), kPeerMac}};
  // At once, without waiting for the interval.
  EXPECT_LE(interface_.deadline_ns(), now_ns_);
  Pass(0);
  EXPECT_TRUE(results_[0]->value().ok());
  EXPECT_EQ(interface_.neighbours().size(), 1u);
  // It moves.
  const auto handle = Handle(kPeer);
  const MacAddress other{2, 0, 0, 0, 0, 3};
  kernel_.news = {{Gid::FromIpv4(kPeer), other}};
  Pass(HostInterface::kPollNs);
  EXPECT_EQ(handle->link->Load().mac, other);
  // Used, it is confirmed through the kernel.
  kernel_.solicited.clear();
  Pass(2 * NeighbourTable::kReachableNs);
  EXPECT_FALSE(kernel_.solicited.empty());
}

TEST_F(InterfaceKernelTest, Ipv6NeighboursAreSolicitedWithoutALinkLocalAddress) {
  const Gid ours = ParseAddress("2001:db8::1").value(), peer = ParseAddress("2001:db8::2").value();
  kernel_.state_.addresses.push_back({.address = ours, .prefix_length = 64});
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  EXPECT_FALSE(Resolve(peer).has_value());
  EXPECT_EQ(kernel_.solicited, std::vector{peer});
  ASSERT_EQ(link_.sent.size(), 1u);
  const std::vector<uint8_t> frame = link_.sent.front();
  const auto ethernet = wire::ParseEthernet(frame.data(), frame.size());
  ASSERT_TRUE(ethernet.has_value());
  EXPECT_EQ(ethernet->destination, wire::MulticastMac(wire::SolicitedNodeGroup(peer)));
  const uint8_t* const packet = frame.data() + wire::kEthernetBytes;
  const auto ip = wire::ParseIpv6(packet, frame.size() - wire::kEthernetBytes);
  ASSERT_TRUE(ip.has_value());
  EXPECT_EQ(ip->source, ours);
  const auto asked = wire::ParseNeighbourSolicitation(
      packet + wire::kIpv6Bytes, frame.size() - wire::kEthernetBytes - wire::kIpv6Bytes);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->target, peer);
  // The answer is for the kernel, which tells of it.
  kernel_.news = {{peer, kPeerMac}};
  Pass(HostInterface::kPollNs);
  EXPECT_TRUE(results_[0]->value().ok());
}

TEST_F(InterfaceKernelTest, FollowsAddressesAndRoutes) {
  EXPECT_EQ(Resolve(Ip(192, 168, 0, 1))->code(), absl::StatusCode::kNotFound);
  kernel_.state_.addresses.push_back(InterfaceAddress::Ipv4(kOurs + 9));
  kernel_.state_.routes = DefaultRoutes(Gid::FromIpv4(kGateway), kernel_.state_.addresses);
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  ASSERT_EQ(interface_.gid_table_size(), 2u);
  EXPECT_FALSE(Resolve(Ip(192, 168, 0, 1)).has_value());
  EXPECT_EQ(kernel_.solicited.back(), Gid::FromIpv4(kGateway));
  // 02:00:00:00:00:01, IPv4, from 0.0.0.0 to kOurs.
  uint8_t frame[wire::kEthernetBytes + wire::kIpv4Bytes] = {2, 0, 0, 0, 0, 1};
  StoreBe16(frame + wire::ethernet::kType, wire::kEtherTypeIpv4);
  StoreBe32(frame + wire::kEthernetBytes + wire::ipv4::kDestination, kOurs);
  wire::RocePacket packet;
  packet.frame = frame;
  packet.l3_offset = wire::kEthernetBytes;
  for (int look = 0; look < 2; ++look) EXPECT_TRUE(interface_.IsOurs(packet));
  kernel_.state_.addresses.erase(kernel_.state_.addresses.begin());
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  EXPECT_FALSE(interface_.IsOurs(packet));
  EXPECT_EQ(interface_.QueryGid(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*interface_.QueryGid(1), Gid::FromIpv4(kOurs + 9));
}

TEST_F(InterfaceKernelTest, GroupsUseADeprecatedAddressOnlyIfThereIsNoOther) {
  const Gid group = ParseAddress("ff0e::1234").value();
  const InterfaceAddress deprecated{ParseAddress("2001:db8::5").value(), 128, kNoVlan, true};
  const InterfaceAddress preferred{ParseAddress("2001:db8::10").value(), 64};
  kernel_.state_.addresses = {deprecated};
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  EXPECT_EQ(interface_.SourceIndex(group).value(), interface_.GidIndex(deprecated.address));
  kernel_.state_.addresses = {deprecated, preferred};
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  EXPECT_EQ(interface_.SourceIndex(group).value(), interface_.GidIndex(preferred.address));
}

// A service address that moves to another host, as with keepalived.
TEST_F(InterfaceKernelTest, AFormerOwnAddressIsResolvedAtItsNewHost) {
  constexpr uint32_t kService = kOurs + 9;
  kernel_.state_.addresses.push_back(InterfaceAddress::Ipv4(kService));
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  const auto own = Handle(kService);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->link->Load().mac, kOurMac);
  kernel_.state_.addresses.pop_back();
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  EXPECT_FALSE(own->link->Load().resolved) << "whoever keeps a handle is told";
  const auto away = Handle(kService);
  ASSERT_TRUE(away.ok()) << away.status();
  EXPECT_EQ(kernel_.solicited, std::vector{Gid::FromIpv4(kService)});
  EXPECT_FALSE(away->link->Load().resolved) << "to our own MAC address";
}

// The MAC address of an interface may change: bonds do it when they fail over.
TEST_F(InterfaceKernelTest, LoopbackFollowsTheMacAddress) {
  const auto before = Handle(kOurs);
  ASSERT_TRUE(before.ok());
  kernel_.state_.mac = {2, 0, 0, 0, 0, 7};
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  EXPECT_EQ(before->link->Load().mac, kernel_.state_.mac);
  const auto after = Handle(kOurs);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->link->Load().mac, kernel_.state_.mac);
}

// Queue pairs keep handles, and build their headers anew when the version of `link` changes.
TEST_F(InterfaceKernelTest, HandlesFollowTheMacAddress) {
  const auto handle = Handle(kPeer);
  ASSERT_TRUE(handle.ok());
  const uint64_t before = handle->link->word();
  kernel_.state_.mac = {2, 0, 0, 0, 0, 7};
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  EXPECT_EQ(handle->own_link->Load().mac, kernel_.state_.mac);
  EXPECT_NE(handle->link->word(), before);
}

// The other way round: a host's address that becomes this one's, and is then looped back to.
TEST_F(InterfaceKernelTest, ANeighbourThatBecomesAnOwnAddressIsLoopedBack) {
  const auto remote = Handle(kPeer);
  ASSERT_TRUE(remote.ok());
  kernel_.news = {{Gid::FromIpv4(kPeer), kPeerMac}};
  Pass(HostInterface::kPollNs);
  ASSERT_EQ(StateOf(kPeer), NeighbourState::kReachable);
  interface_.Release(*remote);
  kernel_.state_.addresses.push_back(InterfaceAddress::Ipv4(kPeer));
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  ASSERT_TRUE(Handle(kPeer).ok());
  now_ns_ += 3 * NeighbourTable::kReachableNs;
  transport::PollContext context = Context();
  interface_.OnDeadline(context);
  EXPECT_GT(interface_.deadline_ns(), now_ns_) << "due again at once, for ever";
}

// The kernel keeps what it knew of the address while that was another host's, and tells half a
// minute later that it is stale.
TEST_F(InterfaceKernelTest, StaleNeighbourNewsDoNotRedirectLoopback) {
  kernel_.state_.addresses.push_back(InterfaceAddress::Ipv4(kPeer));
  kernel_.changed = true;
  Pass(HostInterface::kPollNs);
  const auto own = Handle(kPeer);
  ASSERT_TRUE(own.ok()) << own.status();
  ASSERT_EQ(own->link->Load().mac, kOurMac);
  kernel_.news = {{Gid::FromIpv4(kPeer), kPeerMac}};
  Pass(HostInterface::kPollNs);
  EXPECT_EQ(own->link->Load().mac, kOurMac);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kPermanent);
}

TEST_F(InterfaceKernelTest, GroupsAreJoinedByTheKernelOnce) {
  transport::PollContext context = Context();
  ASSERT_TRUE(interface_.JoinMulticast(kGroup, context).ok());
  ASSERT_TRUE(interface_.JoinMulticast(kGroup, context).ok());
  EXPECT_EQ(kernel_.joined, std::vector{kGroup});
  ASSERT_TRUE(interface_.LeaveMulticast(kGroup, context).ok());
  EXPECT_EQ(kernel_.joined, std::vector{kGroup});
  ASSERT_TRUE(interface_.LeaveMulticast(kGroup, context).ok());
  EXPECT_TRUE(kernel_.joined.empty());
  kernel_.group_status = absl::InternalError("no");
  EXPECT_FALSE(interface_.JoinMulticast(kGroup, context).ok());
  Pass(10 * kSecond);
  EXPECT_TRUE(link_.sent.empty());  // no reports of our own
}

}  // namespace
}  // namespace pollux::ip
