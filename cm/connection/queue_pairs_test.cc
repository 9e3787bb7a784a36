// Connections of queue pairs that are the user's own: what CM tells it to move them by, and that it
// does not touch them.
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/status/status.h"
#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

constexpr uint32_t kClientQpn = 0x2777, kServerQpn = 0x1888;

class OwnQueuePairTest : public ManagerTest {
 protected:
  static absl::Status Move(const Host& host, FakeQp& qp, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    absl::Status status = host.manager->QueryQpAttr(*host.id, &attr, &mask);
    return status.ok() ? qp.qp.Modify(attr, mask) : status;
  }
  static void MoveToRts(const Host& host, FakeQp& qp) {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      EXPECT_TRUE(Move(host, qp, state).ok()) << state;
    }
  }
  // The client has asked, and the server's user has heard of it.
  void Request() {
    server.Listen();
    server.on_event = [this](const Event& event) {
      if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) server.id = event.id;
    };
    client.Resolve(server.address);
    client.param.qp_num = kClientQpn;
    server.param.qp_num = kServerQpn;
    ASSERT_TRUE(client.Connect().ok());
    ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_CONNECT_REQUEST); }));
  }
  // And the server has accepted, and the client's user has heard of that.
  void Respond() {
    Request();
    MoveToRts(server, server_qp);
    ASSERT_TRUE(server.Accept().ok());
    ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_CONNECT_RESPONSE); }));
  }
  void ExpectNothingLeftAfterDestruction() {
    client.manager->DestroyId(client.id);
    server.manager->DestroyId(server.id);
    ExpectNothingLeft();
  }

  FakeQp client_qp{kClientQpn};
  FakeQp server_qp{kServerQpn};
};

TEST_F(OwnQueuePairTest, EventsCarryTheQueuePairNumbers) {
  client.param.initiator_depth = 9;
  client.param.rnr_retry_count = 3;
  Request();
  EXPECT_EQ(server.Last().param.qp_num, kClientQpn);
  MoveToRts(server, server_qp);
  ASSERT_TRUE(server.Accept().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_CONNECT_RESPONSE); }));
  EXPECT_EQ(client.Last().param.qp_num, kServerQpn);
  EXPECT_EQ(client.Last().private_data[0], 4);
  MoveToRts(client, client_qp);
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_ESTABLISHED));
  ASSERT_TRUE(client.manager->Establish(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_CONNECT_RESPONSE) << "no event follows";

  const ibv_qp_attr& a = client_qp.qp.attr;
  const ibv_qp_attr& b = server_qp.qp.attr;
  EXPECT_EQ(a.sq_psn, b.rq_psn);
  EXPECT_EQ(b.sq_psn, a.rq_psn);
  EXPECT_NE(a.sq_psn, a.rq_psn);
  EXPECT_EQ(a.dest_qp_num, kServerQpn);
  EXPECT_EQ(b.dest_qp_num, kClientQpn);
  EXPECT_EQ(b.max_dest_rd_atomic, 9) << "as the peer asks, before the user has said anything";
  EXPECT_EQ(b.rnr_retry, 3);
  EXPECT_EQ(b.min_rnr_timer, ConnectionParam{}.min_rnr_timer);
  EXPECT_NE(b.timeout, 0) << "which is for ever";
  EXPECT_EQ(a.path_mtu, b.path_mtu);
}

TEST_F(OwnQueuePairTest, EventsShowWhetherThePeerHasASharedReceiveQueue) {
  for (const bool client_has : {false, true}) {
    client.param.srq = client_has;
    server.param.srq = !client_has;
    if (server.listener != nullptr) server.manager->DestroyId(server.listener);
    server.events.clear();
    Request();
    EXPECT_EQ(server.Last().param.srq, client_has);
    ASSERT_TRUE(server.Accept().ok());
    ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_CONNECT_RESPONSE); }));
    EXPECT_EQ(client.Last().param.srq, !client_has);
    client.manager->DestroyId(client.id);
    server.manager->DestroyId(server.id);
    network.Run(kSecond);
  }
}

TEST_F(OwnQueuePairTest, StaysInRtsAfterDisconnect) {
  Respond();
  MoveToRts(client, client_qp);
  ASSERT_TRUE(client.manager->Establish(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_DISCONNECTED) && server.Saw(RDMA_CM_EVENT_DISCONNECTED);
  }));
  EXPECT_EQ(client_qp.qp.attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(server_qp.qp.attr.qp_state, IBV_QPS_RTS);
  ExpectNothingLeftAfterDestruction();
}

TEST_F(OwnQueuePairTest, ALostRtuIsRepeated) {
  Respond();
  Lose(Attribute::kRtu, 1);
  ASSERT_TRUE(client.manager->Establish(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_EQ(network.CountSent(Attribute::kRtu), 2);
}

TEST_F(OwnQueuePairTest, AResponseMayBeRejected) {
  Respond();
  ASSERT_TRUE(client.manager->Reject(client.id, {}).ok());
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(server.Last().status, static_cast<int>(RejectReason::kConsumerDefined));
  EXPECT_EQ(LastSent<Rej>().message_rejected, static_cast<uint8_t>(AboutMessage::kRep));
  EXPECT_TRUE(absl::IsFailedPrecondition(client.manager->Establish(client.id)));
  ExpectNothingLeftAfterDestruction();
}

// A user that takes its time is heard of; one that never moves on loses the connection.
TEST_F(OwnQueuePairTest, AResponseThatIsNeverEstablishedTimesOut) {
  Respond();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }, 3000 * kSecond));
  EXPECT_GT(network.CountSent(Attribute::kMra), 0);
  EXPECT_EQ(client.Last().status, static_cast<int>(RejectReason::kTimeout));
  EXPECT_EQ(server.Last().type, RDMA_CM_EVENT_UNREACHABLE);
  ExpectNothingLeftAfterDestruction();
}

TEST_F(OwnQueuePairTest, EstablishNeedsAnOwnQueuePair) {
  client.Prepare(server.address);
  EXPECT_TRUE(absl::IsFailedPrecondition(client.manager->Establish(client.id)));
  Start();
  EXPECT_TRUE(absl::IsFailedPrecondition(client.manager->Establish(client.id)));
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  EXPECT_TRUE(absl::IsFailedPrecondition(client.manager->Establish(client.id)));
}

TEST_F(OwnQueuePairTest, InvalidQueuePairNumbersAreRefused) {
  for (const uint32_t qpn : {0u, 1u, 0xFFFFFFu, 0x1000000u}) {
    client.Resolve(server.address);
    client.param.qp_num = qpn;
    EXPECT_TRUE(absl::IsFailedPrecondition(client.Connect())) << qpn;
  }
}

TEST_F(OwnQueuePairTest, RtrAndRtsAttributesNeedThePeersAnswer) {
  client.Resolve(server.address);
  EXPECT_TRUE(Move(client, client_qp, IBV_QPS_INIT).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Move(client, client_qp, IBV_QPS_RTR)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Move(client, client_qp, IBV_QPS_RTS)));
  EXPECT_TRUE(absl::IsInvalidArgument(Move(client, client_qp, IBV_QPS_ERR)));
}

TEST_F(OwnQueuePairTest, UdQueuePairsReachRtsWithoutAConnection) {
  client.port_space = RDMA_PS_UDP;
  client.id = *client.manager->CreateId(RDMA_PS_UDP, client.Handler());
  FakeQp qp{0x2999, IBV_QPT_UD};
  MoveToRts(client, qp);
  EXPECT_EQ(qp.qp.attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(qp.qp.attr.qkey, uint32_t{RDMA_UDP_QKEY});
}

// The manager's worker owns it: nothing goes through a mailbox, and handlers still do not run
// inside a call.
class QueuePairOfOwnWorkerTest : public ManagerTest {
 protected:
  void Ask() {
    server.env->owns_qps = true;
    server.Listen();
    server.on_event = [this](const Event& event) {
      if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) server.id = event.id;
    };
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    ASSERT_TRUE(network.RunUntil([&] { return server.id != nullptr; }));
    server.Bind(server.id);
    EXPECT_FALSE(server.bound);
    ASSERT_TRUE(network.RunUntil([&] { return server.bound; }));
  }
};

TEST_F(QueuePairOfOwnWorkerTest, IsInRtsAndTheReplyIsSentWhenAcceptReturns) {
  Ask();
  EXPECT_TRUE(server.Accept().ok());
  EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(network.CountSent(Attribute::kRep), 1);
  EXPECT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
}

TEST_F(QueuePairOfOwnWorkerTest, AFailedTransitionEndsTheConnectionAfterAccept) {
  Ask();
  server.env->moves_fail = true;
  EXPECT_TRUE(server.Accept().ok());
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_CONNECT_ERROR));
  EXPECT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_CONNECT_ERROR); }));
  EXPECT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
}

}  // namespace
}  // namespace pollux::cm
