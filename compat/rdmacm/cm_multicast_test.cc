// Multicast groups of rdma_cm: joined with a queue pair, without one, and with one that goes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/runtime.h"
#include "compat/runtime/settings.h"
#include "stack/base/eventually_for_test.h"

namespace pollux::compat {
namespace {

constexpr char kGroup[] = "239.1.2.3";
constexpr uint32_t kGroupNumber = 0xEF010203;

class CmMulticastTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPortOfOne, 1); }
  void SetUp() override {
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr);
    ASSERT_NO_FATAL_FAILURE(Make());
  }
  void TearDown() override {
    EXPECT_EQ(rdma_destroy_id(id_), 0);
    rdma_destroy_event_channel(channel_);
  }
  void Make() {
    ASSERT_EQ(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_UDP), 0);
    ASSERT_EQ(Bind(id_, kAddressOfOne, 0), 0) << std::strerror(errno);
  }
  int MakeDatagramQp() {
    ibv_qp_init_attr init = ReliableQp(4);
    init.qp_type = IBV_QPT_UD;
    return rdma_create_qp(id_, nullptr, &init);
  }
  static ibv_gid GroupGid() {
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xFF;
    inet_pton(AF_INET, kGroup, &gid.raw[12]);
    return gid;
  }
  // As detaching it tells; it is as it was when this returns.
  bool IsAttached() {
    const ibv_gid gid = GroupGid();
    const int detached = ibv_detach_mcast(id_->qp, &gid, 0);
    EXPECT_TRUE(detached == 0 || detached == EINVAL) << std::strerror(detached);
    if (detached == 0) {
      EXPECT_EQ(ibv_attach_mcast(id_->qp, &gid, 0), 0);
    }
    return detached == 0;
  }
  // Whether the port's interface is in the group; it is as it was when this returns.
  static bool IsJoined() {
    Runtime* const runtime = *Runtime::Get();
    const Gid group = Gid::FromIpv4(kGroupNumber);
    const ScopedWorkerOwnership owned(runtime);
    if (!runtime->device().LeaveMulticast(group).ok()) return false;
    EXPECT_TRUE(runtime->device().JoinMulticast(group).ok());
    return true;
  }
  int Join() { return rdma_join_multicast(id_, group_.get(), this); }
  void ExpectJoined() {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_MULTICAST_JOIN) << rdma_event_str(event->event);
    EXPECT_EQ(event->status, 0);
    EXPECT_EQ(event->id, id_);
    EXPECT_EQ(event->param.ud.private_data, this) << "the context";
    EXPECT_EQ(event->param.ud.qp_num, 0xFFFFFFu);
    EXPECT_EQ(event->param.ud.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
  }

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  Ipv4Address group_{kGroup, 0};
};

TEST_F(CmMulticastTest, AGroupCanBeJoinedWithoutAQueuePair) {
  ASSERT_EQ(Join(), 0) << std::strerror(errno);
  ExpectJoined();
  ASSERT_EQ(rdma_leave_multicast(id_, group_.get()), 0);
  EXPECT_EQ(rdma_leave_multicast(id_, group_.get()), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

// As librdmacm, which attaches the queue pair that is there when the event is taken.
TEST_F(CmMulticastTest, AQueuePairCreatedDuringTheJoinIsAttachedWhenTheEventIsTaken) {
  for (const bool had_another : {false, true}) {
    if (had_another) {
      ASSERT_EQ(MakeDatagramQp(), 0);
    }
    ASSERT_EQ(Join(), 0) << std::strerror(errno);
    if (had_another) rdma_destroy_qp(id_);
    ASSERT_EQ(MakeDatagramQp(), 0) << std::strerror(errno);
    EXPECT_FALSE(IsAttached());
    ASSERT_NO_FATAL_FAILURE(ExpectJoined());
    EXPECT_TRUE(IsAttached());
    ASSERT_EQ(rdma_leave_multicast(id_, group_.get()), 0);
    EXPECT_FALSE(IsAttached());
    rdma_destroy_qp(id_);
  }
}

TEST_F(CmMulticastTest, AnAttachedQueuePairKeepsTheInterfaceInTheGroup) {
  const ibv_gid gid = GroupGid();
  for (const bool detached : {true, false}) {
    ASSERT_EQ(MakeDatagramQp(), 0) << std::strerror(errno);
    EXPECT_FALSE(IsJoined());
    ASSERT_EQ(ibv_attach_mcast(id_->qp, &gid, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(id_->qp, &gid, 0), 0) << "without effect";
    EXPECT_TRUE(IsJoined());
    if (detached) {
      EXPECT_EQ(ibv_detach_mcast(id_->qp, &gid, 0), 0);
      EXPECT_FALSE(IsJoined());
    }
    rdma_destroy_qp(id_);
    EXPECT_FALSE(IsJoined());
  }
}

// As librdmacm, which asks for no more than the identifier's `qp`.
TEST_F(CmMulticastTest, AQueuePairAssignedByTheProgramIsAttached) {
  ibv_qp_init_attr init = ReliableQp(1);
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = ibv_create_cq(id_->verbs, 1, nullptr, nullptr, 0);
  ASSERT_NE(init.recv_cq, nullptr);
  id_->qp = ibv_create_qp(id_->pd, &init);
  ASSERT_NE(id_->qp, nullptr);
  ASSERT_EQ(Join(), 0) << std::strerror(errno);
  ASSERT_NO_FATAL_FAILURE(ExpectJoined());
  EXPECT_TRUE(IsAttached());
  ASSERT_EQ(rdma_leave_multicast(id_, group_.get()), 0);
  EXPECT_FALSE(IsAttached());
  EXPECT_EQ(ibv_destroy_qp(std::exchange(id_->qp, nullptr)), 0);
  EXPECT_EQ(ibv_destroy_cq(init.recv_cq), 0);
}

TEST_F(CmMulticastTest, AFailedAttachFailsTheJoin) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(id_->verbs, &device), 0);
  ibv_qp_init_attr init = ReliableQp(1);
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = ibv_create_cq(id_->verbs, 1, nullptr, nullptr, 0);
  ASSERT_NE(init.recv_cq, nullptr);
  std::vector<ibv_qp*> members(static_cast<size_t>(device.max_mcast_qp_attach));
  const ibv_gid gid = GroupGid();
  for (ibv_qp*& member : members) {
    member = ibv_create_qp(id_->pd, &init);
    ASSERT_NE(member, nullptr) << std::strerror(errno);
    ASSERT_EQ(ibv_attach_mcast(member, &gid, 0), 0);
  }
  ASSERT_EQ(MakeDatagramQp(), 0);
  for (const bool made_meanwhile : {false, true}) {
    if (made_meanwhile) rdma_destroy_qp(id_);
    ASSERT_EQ(Join(), 0) << std::strerror(errno);
    if (made_meanwhile) {
      ASSERT_EQ(MakeDatagramQp(), 0);
    }
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_MULTICAST_ERROR) << rdma_event_str(event->event);
    EXPECT_EQ(event->status, -ENOMEM);
    EXPECT_EQ(event->param.ud.private_data, this) << "the context";
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    EXPECT_EQ(rdma_leave_multicast(id_, group_.get()), -1) << "it is in no group";
  }
  for (ibv_qp* member : members) EXPECT_EQ(ibv_destroy_qp(member), 0);
  EXPECT_EQ(ibv_destroy_cq(init.recv_cq), 0);
  ASSERT_EQ(Join(), 0) << std::strerror(errno);
  ASSERT_NO_FATAL_FAILURE(ExpectJoined());
  rdma_destroy_qp(id_);
}

TEST_F(CmMulticastTest, TheQueuePairMayBeDestroyedDuringTheJoin) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(MakeDatagramQp(), 0) << std::strerror(errno);
    ASSERT_EQ(Join(), 0) << std::strerror(errno);
    rdma_destroy_qp(id_);
    ASSERT_NO_FATAL_FAILURE(ExpectJoined());
    ASSERT_EQ(rdma_destroy_id(id_), 0);
    ASSERT_NO_FATAL_FAILURE(Make());
  }
}

TEST_F(CmMulticastTest, LeavingAGroupDropsItsJoinEvent) {
  ASSERT_EQ(MakeDatagramQp(), 0);
  ASSERT_EQ(Join(), 0);
  pollfd wanted{channel_->fd, POLLIN, 0};
  ASSERT_EQ(poll(&wanted, 1, -1), 1);
  ASSERT_EQ(rdma_leave_multicast(id_, group_.get()), 0);
  EXPECT_EQ(poll(&wanted, 1, 0), 0);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  rdma_destroy_qp(id_);
}

// The program may free the context of a group that it has left.
TEST_F(CmMulticastTest, LeavingAGroupWaitsForItsJoinEventToBeAcknowledged) {
  ASSERT_EQ(Join(), 0) << std::strerror(errno);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  std::atomic<bool> left{false};
  std::thread leaver([&] {
    EXPECT_EQ(rdma_leave_multicast(id_, group_.get()), 0) << std::strerror(errno);
    left = true;
  });
  EXPECT_TRUE(Eventually([] { return !IsJoined(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(left);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  leaver.join();
}

TEST_F(CmMulticastTest, ASynchronousIdentifierLeavesWithoutAnAcknowledgement) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_UDP), 0);
  ASSERT_EQ(Bind(id, kAddressOfOne, 0), 0) << std::strerror(errno);
  ASSERT_EQ(rdma_join_multicast(id, group_.get(), nullptr), 0) << std::strerror(errno);
  EXPECT_NE(id->event, nullptr);
  EXPECT_EQ(rdma_leave_multicast(id, group_.get()), 0) << std::strerror(errno);
  EXPECT_EQ(id->event, nullptr);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

}  // namespace
}  // namespace pollux::compat
