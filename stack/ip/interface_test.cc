#include "stack/ip/interface.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "stack/io/eal_for_test.h"
#include "stack/ip/interface_fixture.h"
#include "stack/wire/icmp.h"

namespace pollux::ip {
namespace {

using transport::Drop;

using InterfaceTest = InterfaceHost;

TEST(PathMtu, FollowsTheRuleOfLinux) {
  EXPECT_EQ(*PathMtu(1500), IBV_MTU_1024);
  EXPECT_EQ(*PathMtu(2200), IBV_MTU_2048);
  EXPECT_EQ(*PathMtu(4192), IBV_MTU_4096);
  EXPECT_EQ(*PathMtu(4191), IBV_MTU_2048);
  EXPECT_EQ(*PathMtu(9000), IBV_MTU_4096);
  EXPECT_EQ(*PathMtu(352), IBV_MTU_256);
  EXPECT_EQ(PathMtu(351).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InterfaceTest, HasItsGidAndMtu) {
  EXPECT_EQ(*interface_.QueryGid(0), Gid::FromIpv4(kOurs));
  EXPECT_EQ(interface_.QueryGid(1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(interface_.QueryGid(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(interface_.active_mtu(), IBV_MTU_1024);
  uint8_t frame[14] = {2, 0, 0, 0, 0, 1};
  EXPECT_TRUE(interface_.IsOurs(frame, Gid::FromIpv4(kOurs)));
  EXPECT_FALSE(interface_.IsOurs(frame, Gid::FromIpv4(kPeer)));
  frame[5] = 2;
  EXPECT_FALSE(interface_.IsOurs(frame, Gid::FromIpv4(kOurs)));
}

// RFC 5227 sections 2.1 and 2.3.
TEST_F(InterfaceTest, ProbesThenAnnouncesItsAddress) {
  EXPECT_LE(interface_.deadline_ns(), now_ns_);
  Pass(1);
  wire::ArpPacket arp = TakeArp();
  EXPECT_EQ(last_.destination, wire::kBroadcastMac);
  EXPECT_EQ(arp.operation, wire::kArpRequest);
  EXPECT_EQ(arp.sender_address, 0u);
  EXPECT_EQ(arp.target_address, kOurs);
  EXPECT_TRUE(link_.sent.empty());
  Pass(kSecond);
  arp = TakeArp();
  EXPECT_EQ(arp.sender_address, kOurs);
  EXPECT_EQ(arp.target_address, kOurs);
  EXPECT_TRUE(link_.sent.empty());
  EXPECT_EQ(interface_.deadline_ns(), UINT64_MAX);
}

TEST_F(InterfaceTest, AnAddressConflictIsReportedAndNotAnnounced) {
  Pass(1);
  link_.sent.clear();
  Arrive(Arp(wire::kArpReply, kOurs, kPeerMac, 0));
  EXPECT_EQ(interface_.conflict(), (AddressConflict{Gid::FromIpv4(kOurs), kPeerMac}));
  EXPECT_EQ(interface_.counters().arp_conflicts, 1u);
  Pass(kSecond);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceTest, AddressesAreProbedAndAnnouncedAgainWhenTheLinkComesUp) {
  Settle();
  transport::PollContext context = Context();
  interface_.OnLinkUp(context);
  egress_.Flush(now_ns_);
  EXPECT_EQ(TakeArp().sender_address, 0u);
  Pass(kSecond);
  const wire::ArpPacket announcement = TakeArp();
  EXPECT_EQ(announcement.sender_address, kOurs);
  EXPECT_EQ(announcement.target_address, kOurs);
}

class TwoAddressesTest : public InterfaceHost {
 protected:
  static constexpr uint32_t kSecondOfOurs = Ip(10, 0, 0, 5);
  TwoAddressesTest()
      : InterfaceHost(
            {.mac = kOurMac,
             .addresses = {InterfaceAddress::Ipv4(kOurs), InterfaceAddress::Ipv4(kSecondOfOurs)},
             .mtu = 1500}) {}
};

TEST_F(TwoAddressesTest, NoAddressWithAConflictIsAnnounced) {
  Pass(1);
  link_.sent.clear();
  Arrive(Arp(wire::kArpReply, kOurs, kPeerMac, 0));
  Arrive(Arp(wire::kArpReply, kSecondOfOurs, kPeerMac, 0));
  EXPECT_EQ(interface_.counters().arp_conflicts, 2u);
  Pass(kSecond);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceTest, AnswersArpRequestsAndLearnsFromThem) {
  Settle();
  Arrive(Arp(wire::kArpRequest, kPeer, kPeerMac, kOurs, wire::kBroadcastMac));
  const wire::ArpPacket arp = TakeArp();
  EXPECT_EQ(last_.destination, kPeerMac);
  EXPECT_EQ(last_.source, kOurMac);
  EXPECT_EQ(arp, (wire::ArpPacket{.operation = wire::kArpReply,
                                  .sender_mac = kOurMac,
                                  .sender_address = kOurs,
                                  .target_mac = kPeerMac,
                                  .target_address = kPeer}));
  // Nobody had asked it: stale at most. It can be used at once, and is confirmed then.
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kStale);
  EXPECT_TRUE(Resolve(kPeer).value().ok());
  EXPECT_EQ(TakeArp().target_address, kPeer);
  EXPECT_EQ(last_.destination, kPeerMac);
}

TEST_F(InterfaceTest, AnswersAProbeButLearnsNothing) {
  Settle();
  Arrive(Arp(wire::kArpRequest, 0, kPeerMac, kOurs, wire::kBroadcastMac));
  EXPECT_EQ(TakeArp().operation, wire::kArpReply);
  EXPECT_EQ(interface_.neighbours().size(), 0u);
}

// RFC 826: the merge flag.
TEST_F(InterfaceTest, UnsolicitedMessagesAddNoNeighbours) {
  Settle();
  Arrive(Arp(wire::kArpRequest, kPeer, kPeerMac, Ip(10, 0, 0, 9), wire::kBroadcastMac));
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));                         // not asked
  Arrive(Arp(wire::kArpRequest, kPeer, kPeerMac, kPeer, wire::kBroadcastMac));  // announcement
  Arrive(Arp(wire::kArpRequest, Ip(10, 0, 1, 2), kPeerMac, kOurs));             // off the link
  Arrive(Arp(wire::kArpRequest, Ip(10, 0, 0, 255), kPeerMac, kOurs));           // broadcast
  Arrive(Arp(wire::kArpRequest, kPeer, wire::kBroadcastMac, kOurs));
  Arrive(Arp(3, kPeer, kPeerMac, kOurs));
  EXPECT_EQ(interface_.neighbours().size(), 0u);
  EXPECT_EQ(interface_.counters().arp_learned, 0u);
}

TEST_F(InterfaceTest, ResolvesByArpRequest) {
  Settle();
  EXPECT_FALSE(Resolve(kPeer).has_value());
  const wire::ArpPacket arp = TakeArp();
  EXPECT_EQ(last_.destination, wire::kBroadcastMac);
  EXPECT_EQ(arp.operation, wire::kArpRequest);
  EXPECT_EQ(arp.sender_address, kOurs);
  EXPECT_EQ(arp.target_address, kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  EXPECT_TRUE(results_[0]->value().ok());
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceTest, GivesUpAfterThreeRequestsOneSecondApart) {
  Settle();
  const uint64_t start = now_ns_;
  EXPECT_FALSE(Resolve(kPeer).has_value());
  Pass(3 * kSecond - 1);
  EXPECT_EQ(link_.sent.size(), 3u);
  EXPECT_FALSE(results_[0]->has_value());
  Pass(1);
  EXPECT_EQ(link_.sent.size(), 3u);
  EXPECT_EQ(results_[0]->value().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(results_[0]->value().message(),
            "no answer to ARP for 10.0.0.2 (3 requests, 1 s apart)");
  EXPECT_EQ(now_ns_ - start, 3 * kSecond);
  // It is forgotten, and can be asked for again.
  Pass(2 * kSecond);
  EXPECT_EQ(interface_.neighbours().size(), 0u);
  EXPECT_EQ(interface_.deadline_ns(), UINT64_MAX);
  EXPECT_FALSE(Resolve(kPeer).has_value());
  EXPECT_EQ(link_.sent.size(), 4u);
}

TEST_F(InterfaceTest, OffLinkDestinationsResolveTheGateway) {
  Settle();
  EXPECT_FALSE(Resolve(Ip(192, 168, 7, 7)).has_value());
  EXPECT_EQ(TakeArp().target_address, Ip(10, 0, 0, 254));
  Arrive(Arp(wire::kArpReply, Ip(10, 0, 0, 254), kPeerMac, kOurs));
  EXPECT_TRUE(results_[0]->value().ok());
  const auto handle = Handle(Ip(192, 168, 7, 8));
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(handle->link->Load().mac, kPeerMac);
}

TEST_F(InterfaceTest, TheOwnAddressNeedsNoResolution) {
  Settle();
  EXPECT_TRUE(Resolve(kOurs)->ok());
  EXPECT_EQ(interface_.SourceIndex(Gid::FromIpv4(kOurs)).value(), 0);
  const auto handle = Handle(kOurs);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(handle->link->Load().mac, kOurMac);
  EXPECT_TRUE(handle->link->Load().resolved);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceTest, FramesWaitWhileAnAddressHandleResolves) {
  Settle();
  const auto handle = Handle(kPeer);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(handle->source, Gid::FromIpv4(kOurs));
  EXPECT_EQ(handle->destination, Gid::FromIpv4(kPeer));
  EXPECT_EQ(handle->own_link->Load().mac, kOurMac);
  EXPECT_EQ(handle->hop_limit, 64);
  EXPECT_FALSE(handle->link->Load().resolved);
  EXPECT_FALSE(handle->link->Load().unanswered);
  TakeArp();
  SendWaiting(handle->link, 1);
  SendWaiting(handle->link, 2);
  EXPECT_TRUE(link_.sent.empty());
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  EXPECT_TRUE(handle->link->Load().resolved);
  EXPECT_EQ(handle->link->Load().mac, kPeerMac);
  ASSERT_EQ(link_.sent.size(), 2u);
  for (uint8_t i = 0; i < 2; ++i) {
    EXPECT_EQ(std::memcmp(link_.sent[i].data(), kPeerMac.data(), 6), 0);
    EXPECT_EQ(link_.sent[i][20], i + 1);
  }
}

TEST_F(InterfaceTest, WaitingFramesPerNeighbourAreBoundedAndTheOldestIsDropped) {
  Settle();
  const auto handle = Handle(kPeer);
  TakeArp();
  for (uint8_t i = 0; i < NeighbourTable::kMaxWaiting; ++i) SendWaiting(handle->link, i);
  EXPECT_EQ(counters_.drop(Drop::kUnresolved), 0u);
  SendWaiting(handle->link, 99);
  EXPECT_EQ(counters_.drop(Drop::kUnresolved), 1u);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  ASSERT_EQ(link_.sent.size(), NeighbourTable::kMaxWaiting);
  EXPECT_EQ(link_.sent.front()[20], 1);
  EXPECT_EQ(link_.sent.back()[20], 99);
  EXPECT_EQ(io::FramesInUse(), 0u);
}

TEST_F(InterfaceTest, WaitingFramesInTotalAreBounded) {
  Settle();
  constexpr uint32_t kPeers = NeighbourTable::kMaxWaitingTotal / NeighbourTable::kMaxWaiting;
  for (uint32_t i = 0; i < kPeers; ++i) {
    const auto handle = Handle(Ip(10, 0, 0, 10 + i));
    for (uint32_t j = 0; j < NeighbourTable::kMaxWaiting; ++j) SendWaiting(handle->link, 0);
  }
  EXPECT_EQ(io::FramesInUse(), NeighbourTable::kMaxWaitingTotal);
  EXPECT_EQ(counters_.drop(Drop::kUnresolved), 0u);
  const auto handle = Handle(Ip(10, 0, 0, 200));
  SendWaiting(handle->link, 0);
  EXPECT_EQ(counters_.drop(Drop::kUnresolved), 1u);
  // All are freed when nobody answers.
  Pass(4 * kSecond);
  EXPECT_EQ(io::FramesInUse(), 0u);
  EXPECT_EQ(counters_.drop(Drop::kUnresolved), 1u + NeighbourTable::kMaxWaitingTotal);
}

TEST_F(InterfaceTest, ClearFreesWaitingFrames) {
  Settle();
  const auto handle = Handle(kPeer);
  SendWaiting(handle->link, 1);
  SendWaiting(handle->link, 2);
  EXPECT_EQ(io::FramesInUse(), 2u);
  interface_.Clear();
  EXPECT_EQ(io::FramesInUse(), 0u);
}

TEST_F(InterfaceTest, FramesToAFailedNeighbourRestartResolution) {
  Settle();
  const auto handle = Handle(kPeer);
  Pass(10 * kSecond);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kFailed);
  link_.sent.clear();
  SendWaiting(handle->link, 1);
  EXPECT_EQ(TakeArp().target_address, kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  EXPECT_EQ(link_.sent.size(), 1u);
}

TEST_F(InterfaceTest, UsedNeighboursAreConfirmedWhileTheyKeepWorking) {
  Settle();
  const auto handle = Handle(kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  const uint64_t word = handle->link->word();
  link_.sent.clear();
  while (link_.sent.empty()) Pass(kSecond);
  TakeArp();
  EXPECT_EQ(last_.destination, kPeerMac);  // asked directly
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kProbe);
  EXPECT_EQ(handle->link->word(), word);
  // Silence: three times directly, three times everyone, then it is gone.
  Pass(5 * kSecond);
  EXPECT_EQ(link_.sent.size(), 5u);
  EXPECT_TRUE(handle->link->Load().resolved);
  for (int i = 0; i < 5; ++i) TakeArp();
  EXPECT_EQ(last_.destination, wire::kBroadcastMac);
  Pass(2 * kSecond);
  EXPECT_FALSE(handle->link->Load().resolved);
  EXPECT_TRUE(handle->link->Load().unanswered);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kFailed);
}

TEST_F(InterfaceTest, AConfirmedNeighbourKeepsHeaderTemplatesValid) {
  Settle();
  const auto handle = Handle(kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  const uint64_t word = handle->link->word();
  link_.sent.clear();
  while (link_.sent.empty()) Pass(kSecond);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kReachable);
  EXPECT_EQ(handle->link->word(), word);
}

TEST_F(InterfaceTest, AnAnnouncementDoesNotMoveANeighbourThatAnswers) {
  Settle();
  const auto handle = Handle(kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  const uint64_t word = handle->link->word();
  link_.sent.clear();
  for (const std::vector<uint8_t>& claim :
       {Arp(wire::kArpRequest, kPeer, kOtherMac, kPeer, wire::kBroadcastMac),
        Arp(wire::kArpReply, kPeer, kOtherMac, kPeer, wire::kBroadcastMac),
        Arp(wire::kArpRequest, kPeer, kOtherMac, kOurs)}) {
    Arrive(claim);
    // The one that is known is asked, and no other is heard meanwhile.
    TakeArp();
    EXPECT_EQ(last_.destination, kPeerMac);
    EXPECT_EQ(StateOf(kPeer), NeighbourState::kProbe);
    Arrive(Arp(wire::kArpReply, kPeer, kOtherMac, kOurs));
    EXPECT_EQ(handle->link->word(), word);
    Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
    EXPECT_EQ(StateOf(kPeer), NeighbourState::kReachable);
    EXPECT_EQ(handle->link->word(), word);
    link_.sent.clear();
  }
  // Nor does an answer that nobody asked for.
  Arrive(Arp(wire::kArpReply, kPeer, kOtherMac, kOurs));
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kReachable);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceTest, ATakenOverAddressMovesOnceTheOldHostIsSilent) {
  Settle();
  const auto handle = Handle(kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  const uint64_t word = handle->link->word();
  link_.sent.clear();
  // However often it announces itself.
  for (int i = 0; i < 2 * NeighbourTable::kMaxRequests; ++i) {
    Arrive(Arp(wire::kArpRequest, kPeer, kOtherMac, kPeer, wire::kBroadcastMac));
    Pass(NeighbourTable::kDoubtRetryNs / 2);
  }
  ASSERT_EQ(link_.sent.size(), NeighbourTable::kMaxRequests + 1u);
  for (int i = 0; i < NeighbourTable::kMaxRequests; ++i) {
    TakeArp();
    EXPECT_EQ(last_.destination, kPeerMac);
  }
  TakeArp();
  EXPECT_EQ(last_.destination, wire::kBroadcastMac);
  EXPECT_EQ(handle->link->word(), word);
  Arrive(Arp(wire::kArpReply, kPeer, kOtherMac, kOurs));
  EXPECT_EQ(handle->link->Load().mac, kOtherMac);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kReachable);
}

TEST_F(InterfaceTest, AConflictingClaimRemovesAnUnusedNeighbour) {
  Settle();
  Arrive(Arp(wire::kArpRequest, kPeer, kPeerMac, kOurs));
  Arrive(Arp(wire::kArpRequest, kPeer, kOtherMac, kPeer, wire::kBroadcastMac));
  EXPECT_EQ(interface_.neighbours().size(), 0u);
}

TEST_F(InterfaceTest, AnAnnouncementDuringResolutionIsUsedAndProbed) {
  Settle();
  const auto handle = Handle(kPeer);
  TakeArp();
  SendWaiting(handle->link, 1);
  Arrive(Arp(wire::kArpRequest, kPeer, kPeerMac, kPeer, wire::kBroadcastMac));
  EXPECT_EQ(handle->link->Load().mac, kPeerMac);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kProbe);
  TakeArp();
  EXPECT_EQ(last_.destination, kPeerMac);
  EXPECT_EQ(link_.sent.size(), 1u) << "what waited";
}

// RFC 4861 section 7.3.1.
TEST_F(InterfaceTest, ProgressOfConnectionsConfirmsTheirNeighbours) {
  Settle();
  constexpr uint32_t kOther = Ip(10, 0, 0, 3);
  const auto handle = Handle(kPeer), silent = Handle(kOther);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  Arrive(Arp(wire::kArpReply, kOther, kOtherMac, kOurs));
  link_.sent.clear();
  bool progress = true;
  interface_.SetProgressSource([&](NeighbourTable::ProgressReport report) {
    if (progress) report(handle->link);
  });
  for (int i = 0; i < 10; ++i) {
    Pass(NeighbourTable::kReachableNs);
    EXPECT_EQ(StateOf(kPeer), NeighbourState::kReachable);
  }
  for (; !link_.sent.empty();) EXPECT_EQ(TakeArp().target_address, kOther);
  EXPECT_EQ(StateOf(kOther), NeighbourState::kFailed);
  progress = false;
  while (link_.sent.empty()) Pass(kSecond);
  EXPECT_EQ(TakeArp().target_address, kPeer);
  EXPECT_EQ(last_.destination, kPeerMac);
}

TEST_F(InterfaceTest, ProgressDuringAProbeConfirmsTheNeighbour) {
  Settle();
  const auto handle = Handle(kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  link_.sent.clear();
  while (link_.sent.empty()) Pass(kSecond);
  ASSERT_EQ(StateOf(kPeer), NeighbourState::kProbe);
  interface_.SetProgressSource(
      [&](NeighbourTable::ProgressReport report) { report(handle->link); });
  Pass(2 * kSecond);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kReachable);
  EXPECT_LE(link_.sent.size(), 2u);
}

TEST_F(InterfaceTest, ProgressIsCheckedAtMostOncePerSecond) {
  Settle();
  constexpr uint32_t kCount = 200;
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(Handle(kPeer + i).ok());
    Arrive(Arp(wire::kArpReply, kPeer + i, kPeerMac, kOurs));
  }
  uint64_t looks = 0;
  interface_.SetProgressSource([&](NeighbourTable::ProgressReport) { ++looks; });
  Pass(2 * NeighbourTable::kReachableNs);
  EXPECT_GT(looks, 0u);
  EXPECT_LE(looks, 2 * NeighbourTable::kReachableNs / NeighbourTable::kLookNs);
}

TEST_F(InterfaceTest, ATimeoutProbesTheKnownAddressImmediately) {
  Settle();
  const auto handle = Handle(kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  const uint64_t word = handle->link->word();
  link_.sent.clear();
  const auto suspect = [&] {
    transport::PollContext context = Context();
    interface_.Suspect(handle->link, context);
    egress_.Flush(now_ns_);
  };
  suspect();
  EXPECT_TRUE(link_.sent.empty()) << "it has just answered";
  Pass(NeighbourTable::kRetryNs);
  suspect();
  suspect();
  ASSERT_EQ(link_.sent.size(), 1u);
  TakeArp();
  EXPECT_EQ(last_.destination, kPeerMac);
  EXPECT_EQ(handle->link->word(), word);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  suspect();
  EXPECT_TRUE(link_.sent.empty());
  // One that is silent gives way to whoever has its address now.
  Pass(NeighbourTable::kRetryNs);
  suspect();
  Pass(NeighbourTable::kMaxRequests * NeighbourTable::kDoubtRetryNs);
  ASSERT_EQ(link_.sent.size(), NeighbourTable::kMaxRequests + 1u);
  Arrive(Arp(wire::kArpReply, kPeer, kOtherMac, kOurs));
  EXPECT_EQ(handle->link->Load().mac, kOtherMac);
}

TEST_F(InterfaceTest, UnusedNeighboursBecomeStaleAndAreRemoved) {
  Settle();
  const auto handle = Handle(kPeer);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  interface_.Release(*handle);
  link_.sent.clear();
  Pass(2 * NeighbourTable::kReachableNs);
  EXPECT_EQ(StateOf(kPeer), NeighbourState::kStale);
  EXPECT_TRUE(link_.sent.empty());
  // Used again: it works at once, and is confirmed.
  EXPECT_TRUE(Resolve(kPeer)->ok());
  TakeArp();
  EXPECT_EQ(last_.destination, kPeerMac);
  Arrive(Arp(wire::kArpReply, kPeer, kPeerMac, kOurs));
  Pass(2 * NeighbourTable::kReachableNs + NeighbourTable::kForgetNs);
  EXPECT_EQ(interface_.neighbours().size(), 0u);
}

TEST_F(InterfaceTest, AFullTableRemovesOnlyUnusedNeighbours) {
  Interface wide({.mac = kOurMac, .addresses = {InterfaceAddress::Ipv4(kOurs, 8)}});
  auto arrive = [&](uint32_t sender) {
    transport::PollContext context = Context();
    wide.OnFrame(io::FrameForTest(Arp(wire::kArpRequest, sender, kPeerMac, kOurs)), context);
    egress_.Flush(now_ns_);
    link_.sent.clear();
  };
  arrive(kPeer);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  const Gid peer = Gid::FromIpv4(kPeer);
  std::memcpy(attr.grh.dgid.raw, peer.raw.data(), 16);
  transport::PollContext context = Context();
  const auto handle = wide.MakeAddressHandle(attr, context);
  ASSERT_TRUE(handle.ok());
  for (uint32_t i = 1; i < NeighbourTable::kMaxNeighbours; ++i) arrive(Ip(10, 1, 0, 0) + i);
  EXPECT_EQ(wide.neighbours().size(), NeighbourTable::kMaxNeighbours);
  EXPECT_EQ(wide.neighbours().evicted(), 0u);
  arrive(Ip(10, 2, 0, 1));
  EXPECT_EQ(wide.neighbours().size(), NeighbourTable::kMaxNeighbours);
  EXPECT_EQ(wide.neighbours().evicted(), 1u);
  EXPECT_EQ(wide.neighbours().state({peer}), NeighbourState::kProbe);
  EXPECT_EQ(wide.neighbours().state({Gid::FromIpv4(Ip(10, 1, 0, 1))}), NeighbourState::kFree);
  EXPECT_TRUE(handle->link->Load().resolved);
  // All referenced: no room.
  for (uint32_t i = 0; i < NeighbourTable::kMaxNeighbours - 1; ++i) {
    const Gid gid = Gid::FromIpv4(Ip(10, 3, 0, 0) + i + 1);
    std::memcpy(attr.grh.dgid.raw, gid.raw.data(), 16);
    ASSERT_TRUE(wide.MakeAddressHandle(attr, context).ok()) << i;
    egress_.Flush(now_ns_);
    link_.sent.clear();
  }
  const Gid gid = Gid::FromIpv4(Ip(10, 4, 0, 1));
  std::memcpy(attr.grh.dgid.raw, gid.raw.data(), 16);
  EXPECT_EQ(wide.MakeAddressHandle(attr, context).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// Happens in a flood of requests with invented source addresses, all of which this host must
// answer.
TEST_F(InterfaceTest, AFullTableRemovesAddressesThatDoNotAnswerBeforeHosts) {
  Interface wide({.mac = kOurMac, .addresses = {InterfaceAddress::Ipv4(kOurs, 8)}});
  transport::PollContext context = Context();
  const auto arrive = [&](uint32_t sender) {
    wide.OnFrame(io::FrameForTest(Arp(wire::kArpRequest, sender, kPeerMac, kOurs)), context);
    egress_.Flush(now_ns_);
    link_.sent.clear();
  };
  arrive(kPeer);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  for (uint32_t i = 1; i <= NeighbourTable::kMaxNeighbours; ++i) {
    const Gid nobody = Gid::FromIpv4(Ip(10, 3, 0, 0) + i);
    std::memcpy(attr.grh.dgid.raw, nobody.raw.data(), 16);
    const auto handle = wide.MakeAddressHandle(attr, context);
    ASSERT_TRUE(handle.ok()) << i;
    wide.Release(*handle);
    egress_.Flush(now_ns_);
    link_.sent.clear();
  }
  arrive(Ip(10, 2, 0, 1));
  for (const uint32_t host : {kPeer, Ip(10, 2, 0, 1)}) {
    EXPECT_EQ(wide.neighbours().state({Gid::FromIpv4(host)}), NeighbourState::kStale);
  }
}

TEST_F(InterfaceTest, InvalidAddressHandlesAreRefused) {
  ibv_ah_attr attr = {};
  transport::PollContext context = Context();
  EXPECT_EQ(interface_.MakeAddressHandle(attr, context).status().code(),
            absl::StatusCode::kInvalidArgument);
  attr.is_global = 1;
  attr.grh.sgid_index = 1;
  EXPECT_EQ(interface_.MakeAddressHandle(attr, context).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Handle(Ip(240, 0, 0, 1)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(InterfaceTest, EchoRequestsAreAnswered) {
  Settle();
  for (size_t size : {0u, 1u, 56u, 1472u}) {
    const std::vector<uint8_t> request = Echo(size);
    Arrive(request);
    ASSERT_EQ(link_.sent.size(), 1u) << size;
    const std::vector<uint8_t> reply = link_.sent.front();
    link_.sent.clear();
    ASSERT_EQ(reply.size(), request.size());
    const auto ethernet = wire::ParseEthernet(reply.data(), reply.size());
    EXPECT_EQ(ethernet->destination, kPeerMac);
    EXPECT_EQ(ethernet->source, kOurMac);
    const auto ip = wire::ParseIpv4(reply.data() + 14, reply.size() - 14);
    ASSERT_TRUE(ip.has_value());
    EXPECT_EQ(ip->source, kOurs);
    EXPECT_EQ(ip->destination, kPeer);
    const auto echo = wire::ParseIcmpEcho(reply.data() + 34, reply.size() - 34);
    ASSERT_TRUE(echo.has_value());
    EXPECT_EQ(*echo,
              (wire::IcmpEcho{.type = wire::kIcmpEchoReply, .identifier = 7, .sequence = 9}));
    EXPECT_TRUE(std::equal(reply.begin() + 42, reply.end(), request.begin() + 42));
  }
  EXPECT_EQ(interface_.neighbours().size(), 0u);
  EXPECT_EQ(io::FramesInUse(), 0u);
}

TEST_F(InterfaceTest, EchoRepliesAreRateLimited) {
  Settle();
  for (uint32_t i = 0; i < EchoResponder::kBurst + 5; ++i) Arrive(Echo(8));
  EXPECT_EQ(interface_.counters().echo_replies_sent, EchoResponder::kBurst);
  EXPECT_EQ(interface_.counters().echo_limited, 5u);
  now_ns_ += EchoResponder::kIntervalNs;
  Arrive(Echo(8));
  Arrive(Echo(8));
  EXPECT_EQ(interface_.counters().echo_replies_sent, EchoResponder::kBurst + 1);
}

TEST_F(InterfaceTest, InvalidAndForeignEchoRequestsAreNotAnswered) {
  Settle();
  Arrive(Echo(8, kPeer, Ip(10, 0, 0, 7)));
  EXPECT_EQ(counters_.drop(Drop::kNotForUs), 1u);
  Arrive(Echo(8, Ip(255, 255, 255, 255)));
  Arrive(Echo(8, kOurs));
  EXPECT_EQ(interface_.counters().echo_ignored, 2u);
  std::vector<uint8_t> bytes = Echo(8);
  bytes.back() ^= 1;  // ICMP checksum
  Arrive(bytes);
  EXPECT_EQ(interface_.counters().echo_ignored, 3u);
  bytes = Echo(8);
  bytes[22] ^= 1;  // TTL: header checksum
  Arrive(bytes);
  EXPECT_EQ(counters_.drop(Drop::kBadIpHeader), 1u);
  bytes = Echo(8);
  bytes[20] = 0x20;  // more fragments
  wire::UpdateIpv4Checksum(bytes.data() + 14);
  Arrive(bytes);
  EXPECT_EQ(counters_.drop(Drop::kUnsupportedL3), 1u);
  bytes = Echo(8);
  std::memset(bytes.data(), 0xFF, 6);  // broadcast
  Arrive(bytes);
  EXPECT_EQ(counters_.drop(Drop::kNotForUs), 2u);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(InterfaceTest, EveryTruncationIsDroppedAndCounted) {
  Settle();
  for (const std::vector<uint8_t>& whole :
       {Echo(20), Arp(wire::kArpRequest, kPeer, kPeerMac, kOurs)}) {
    const bool arp = whole[12] == 0x08 && whole[13] == 0x06;
    const size_t needed = arp ? 14 + wire::kArpBytes : whole.size();
    for (size_t length = 0; length < needed; ++length) {
      Arrive(std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<long>(length)));
      EXPECT_TRUE(link_.sent.empty()) << length;
    }
  }
  uint64_t drops = interface_.counters().arp_ignored + interface_.counters().echo_ignored;
  for (uint64_t count : counters_.drops) drops += count;
  EXPECT_EQ(drops, Echo(20).size() + 14 + wire::kArpBytes);
  EXPECT_EQ(io::FramesInUse(), 0u);
}

TEST_F(InterfaceTest, RandomFramesAreHarmless) {
  Settle();
  Random noise{uint64_t{99}};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> bytes =
        noise.Chance(0.5) ? Echo(30) : Arp(wire::kArpRequest, kPeer, kPeerMac, kOurs);
    for (uint64_t flips = noise.Below(6); flips > 0; --flips) {
      bytes[noise.Below(bytes.size())] = static_cast<uint8_t>(noise.Next32());
    }
    bytes.resize(noise.Below(bytes.size() + 1));
    Arrive(bytes);
    link_.sent.clear();
    now_ns_ += kSecond / 100;
    Pass(0);
    link_.sent.clear();
  }
  EXPECT_EQ(io::FramesInUse(), 0u);
  EXPECT_LE(interface_.neighbours().size(), 254u);
}

TEST(InterfaceConfigTest, ValidConfigurationsPassAndInvalidOnesFail) {
  const Gid global = ParseAddress("2001:db8::1").value();
  EXPECT_TRUE(CheckConfig({.addresses = {{global, 128}}}).ok());
  EXPECT_TRUE(CheckConfig({}).ok());
  EXPECT_TRUE(CheckConfig({.addresses = {InterfaceAddress::Ipv4(kOurs, 32)},
                           .gateways = {Gid::FromIpv4(Ip(9, 9, 9, 9))}})
                  .ok());
  EXPECT_TRUE(CheckConfig({.gateways = {ParseAddress("fe80::1").value()}}).ok());
  for (const InterfaceConfig& config :
       {InterfaceConfig{.addresses = {{global, 129}}},
        InterfaceConfig{.addresses = {InterfaceAddress::Ipv4(kOurs, 33)}},
        InterfaceConfig{.addresses = {{global, 64, 4095}}},
        InterfaceConfig{.addresses = {{global, 64}, {global, 64}}},
        InterfaceConfig{.addresses = {{ParseAddress("ff02::1").value(), 64}}},
        InterfaceConfig{.addresses = {InterfaceAddress::Ipv4(Ip(10, 0, 0, 0))}},
        InterfaceConfig{.addresses = {InterfaceAddress::Ipv4(kOurs)},
        .gateways = {Gid::FromIpv4(Ip(10, 0, 1, 1))}},
        InterfaceConfig{.gateways = {Gid::FromIpv4(kPeer)}},
        InterfaceConfig{.gateways = {Gid{}}}}) {
    EXPECT_EQ(CheckConfig(config).code(), absl::StatusCode::kInvalidArgument);
  }
  InterfaceConfig config{.mac = kOurMac, .link_local = true};
  for (uint32_t i = 1; i < GidTable::kMaxGids; ++i) {
    config.addresses.push_back(InterfaceAddress::Ipv4(kOurs + i));
  }
  EXPECT_TRUE(CheckConfig(config).ok());
  config.addresses.push_back(InterfaceAddress::Ipv4(kOurs));
  EXPECT_EQ(CheckConfig(config).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pollux::ip
