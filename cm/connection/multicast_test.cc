// RDMA_PS_UDP: groups joined and left, and what the user is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

const Gid kGroup = Gid::FromIpv4(0xEF010203);  // 239.1.2.3
const Gid kOther = Gid::FromIpv4(0xEF010204);
constexpr Gid kIpv6Group{{0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};

class MulticastTest : public ManagerTest {
 protected:
  MulticastTest() { client.port_space = RDMA_PS_UDP; }

  // As mckey does: the way to the group is resolved, then a queue pair bound.
  void Prepare() { client.Prepare(kGroup); }
  void JoinAndSee(const Gid& group) {
    client.events.clear();
    ASSERT_TRUE(client.manager->JoinMulticast(client.id, group).ok());
    EXPECT_TRUE(client.events.empty());  // no handler runs inside the call
    ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_MULTICAST_JOIN); }));
  }
  absl::StatusCode Join(const Gid& group) {
    return client.manager->JoinMulticast(client.id, group).code();
  }
  bool Attached(const Gid& group) { return client.env->attached.contains({&client.qp(), group}); }
  bool Joined(const Gid& group) { return client.env->joined.contains({client.address, group}); }
};

TEST_F(MulticastTest, JoinEventHasTheDestinationOfTheGroup) {
  Prepare();
  JoinAndSee(kGroup);
  const Seen seen = client.Last();
  EXPECT_EQ(seen.status, 0);
  EXPECT_EQ(seen.ud.qp_num, 0xFFFFFFu);
  EXPECT_EQ(seen.ud.qkey, 0x01234567u);
  EXPECT_EQ(seen.ud.ah_attr.is_global, 1);
  EXPECT_TRUE(std::ranges::equal(seen.ud.ah_attr.grh.dgid.raw, kGroup.raw));
  EXPECT_TRUE(Joined(kGroup));
  EXPECT_TRUE(Attached(kGroup));
  EXPECT_TRUE(network.log.empty());  // CM sends nothing
}

TEST_F(MulticastTest, LeaveDropsOneGroupAndDestroyAll) {
  Prepare();
  JoinAndSee(kGroup);
  JoinAndSee(kOther);
  EXPECT_EQ(Join(kGroup), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(client.manager->LeaveMulticast(client.id, kGroup).ok());
  EXPECT_FALSE(client.manager->LeaveMulticast(client.id, kGroup).ok());
  network.Run(kSecond);
  EXPECT_FALSE(Joined(kGroup));
  EXPECT_FALSE(Attached(kGroup));
  EXPECT_TRUE(Joined(kOther));
  client.manager->DestroyId(client.id);
  EXPECT_TRUE(client.env->joined.empty());
}

TEST_F(MulticastTest, JoinNeedsABoundUdpIdentifierAndAGroupAddress) {
  client.id = *client.manager->CreateId(RDMA_PS_UDP, client.Handler());
  EXPECT_EQ(Join(kGroup), absl::StatusCode::kFailedPrecondition);
  Prepare();
  EXPECT_EQ(Join(server.address), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Join(kIpv6Group), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.manager->LeaveMulticast(client.id, kGroup).code(), absl::StatusCode::kNotFound);
  client.port_space = RDMA_PS_TCP;
  client.Prepare(server.address);
  EXPECT_EQ(Join(kGroup), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(client.env->joined.empty());
}

TEST_F(MulticastTest, GroupsOfAnIdentifierAreBounded) {
  Prepare();
  for (uint32_t i = 0; i < Manager::kMaxGroupsOfId; ++i) JoinAndSee(Gid::FromIpv4(0xEF000001 + i));
  EXPECT_EQ(Join(kGroup), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client.env->joined.size(), Manager::kMaxGroupsOfId);
}

TEST_F(MulticastTest, AJoinRefusedByTheInterfaceFails) {
  Prepare();
  client.env->join_status = absl::ResourceExhaustedError("full");
  EXPECT_EQ(Join(kGroup), absl::StatusCode::kResourceExhausted);
  client.env->join_status = absl::OkStatus();
  JoinAndSee(kGroup);
}

TEST_F(MulticastTest, AJoinFailsIfTheQueuePairCannotBeAttached) {
  Prepare();
  client.env->attach_status = absl::ResourceExhaustedError("full");
  ASSERT_TRUE(client.manager->JoinMulticast(client.id, kGroup).ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_MULTICAST_ERROR); }));
  EXPECT_EQ(client.Last().status, -ENOMEM);
  EXPECT_TRUE(std::ranges::equal(client.Last().ud.ah_attr.grh.dgid.raw, kGroup.raw)) << "which";
  EXPECT_TRUE(client.env->joined.empty());
  client.env->attach_status = absl::OkStatus();
  JoinAndSee(kGroup);
}

TEST_F(MulticastTest, OnlyTheLastJoinIsReportedAfterLeaveAndRejoin) {
  Prepare();
  client.env->moves_held = true;
  client.events.clear();
  ASSERT_EQ(Join(kGroup), absl::StatusCode::kOk);
  ASSERT_TRUE(client.manager->LeaveMulticast(client.id, kGroup).ok());
  ASSERT_EQ(Join(kOther), absl::StatusCode::kOk);
  ASSERT_TRUE(client.manager->LeaveMulticast(client.id, kOther).ok());
  ASSERT_EQ(Join(kOther), absl::StatusCode::kOk);
  client.env->moves_held = false;
  network.Run(kSecond);
  ASSERT_EQ(client.events.size(), 1u);
  EXPECT_EQ(client.events[0].type, RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_TRUE(std::ranges::equal(client.events[0].ud.ah_attr.grh.dgid.raw, kOther.raw));
  EXPECT_TRUE(Attached(kOther));
  EXPECT_FALSE(Attached(kGroup));
  EXPECT_FALSE(Joined(kGroup));
}

TEST_F(MulticastTest, JoinWithoutAQueuePairAttachesNone) {
  client.id = *client.manager->CreateId(RDMA_PS_UDP, client.Handler());
  ASSERT_TRUE(client.manager->BindAddr(client.id, {client.address, 0}).ok());
  JoinAndSee(kGroup);
  EXPECT_TRUE(std::ranges::equal(client.Last().ud.ah_attr.grh.dgid.raw, kGroup.raw));
  EXPECT_TRUE(Joined(kGroup));
  EXPECT_TRUE(client.env->attached.empty());
  client.Bind(client.id);
  EXPECT_EQ(Join(kOther), absl::StatusCode::kFailedPrecondition) << "it is on its way";
  ASSERT_TRUE(network.RunUntil([&] { return client.bound; }));
  JoinAndSee(kOther);
  EXPECT_TRUE(Attached(kOther));
  ASSERT_TRUE(client.manager->LeaveMulticast(client.id, kGroup).ok());
  EXPECT_FALSE(Joined(kGroup));
}

TEST_F(MulticastTest, AJoinSucceedsUnattachedIfTheQueuePairIsReleasedMeanwhile) {
  Prepare();
  JoinAndSee(kOther);
  client.events.clear();
  client.env->moves_held = true;
  ASSERT_EQ(Join(kGroup), absl::StatusCode::kOk);
  client.manager->ReleaseQp(client.id);
  client.env->moves_held = false;
  network.Run(kSecond);
  ASSERT_EQ(client.events.size(), 1u) << "of the other one it has been told";
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(client.Last().status, 0);
  EXPECT_TRUE(std::ranges::equal(client.Last().ud.ah_attr.grh.dgid.raw, kGroup.raw));
  EXPECT_TRUE(Joined(kGroup));
  EXPECT_FALSE(Attached(kGroup));
}

TEST_F(MulticastTest, LeaveAfterReleaseOfTheQueuePairCancelsAPendingJoin) {
  Prepare();
  client.events.clear();
  ASSERT_EQ(Join(kGroup), absl::StatusCode::kOk);
  client.manager->ReleaseQp(client.id);
  ASSERT_TRUE(client.manager->LeaveMulticast(client.id, kGroup).ok());
  network.Run(kSecond);
  EXPECT_TRUE(client.events.empty());
  EXPECT_TRUE(client.env->joined.empty());
}

TEST_F(MulticastTest, DestroyCancelsAPendingJoin) {
  Prepare();
  ASSERT_EQ(Join(kGroup), absl::StatusCode::kOk);
  client.events.clear();
  client.manager->DestroyId(client.id);
  network.Run(kSecond);
  EXPECT_TRUE(client.events.empty());
  EXPECT_TRUE(client.env->joined.empty());
  EXPECT_TRUE(client.env->attached.empty());
}

}  // namespace
}  // namespace pollux::cm
