#include "cm/wire/reasons.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

TEST(ReasonsTest, EveryReasonHasAName) {
  EXPECT_STREQ(RejectReasonName(8), "invalid service ID");
  EXPECT_STREQ(RejectReasonName(10), "stale connection");
  EXPECT_STREQ(RejectReasonName(28), "rejected by the consumer");
  EXPECT_STREQ(RejectReasonName(35), "vendor option not supported");
  EXPECT_STREQ(SidrStatusName(1), "service ID not supported");
  std::set<std::string> names;
  for (uint16_t reason = 0; reason < 40; ++reason) names.insert(RejectReasonName(reason));
  EXPECT_EQ(names.size(), 34u + 1);  // 1 to 35 without 34, and one name for the rest
  EXPECT_STREQ(RejectReasonName(34), "reserved reason");
  EXPECT_STREQ(RejectReasonName(0xFFFF), "reserved reason");
  EXPECT_STREQ(SidrStatusName(6), "reserved status");
}

TEST_F(ManagerTest, EveryReasonEndsARequest) {
  network.copies_of = [](const Datagram&) { return 0; };
  for (uint16_t reason = 0; reason < 40; ++reason) {
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    Rej rej;
    rej.remote_comm_id = LastSent<Req>().local_comm_id;
    rej.reason = reason;
    Inject(client, server.address, rej);
    EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(client.Last().status, reason);
    network.Run(kSecond);
    EXPECT_EQ(client.qp().attr.qp_state, IBV_QPS_ERR);
    Inject(client, server.address, rej);  // once
    EXPECT_EQ(client.events.size(), 3u);
    client.manager->DestroyId(client.id);
  }
  ExpectNothingLeft();
}

TEST_F(ManagerTest, EveryReasonEndsAReply) {
  server.Listen();
  server.AcceptAll();
  for (uint16_t reason = 0; reason < 40; ++reason) {
    Lose(Attribute::kRep, 1);
    server.events.clear();
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    const int replies = network.CountSent(Attribute::kRep);
    ASSERT_TRUE(network.RunUntil([&] { return network.CountSent(Attribute::kRep) > replies; }));
    const Rep rep = LastSent<Rep>();
    Rej rej;
    rej.local_comm_id = rep.remote_comm_id;
    rej.remote_comm_id = rep.local_comm_id;
    rej.message_rejected = 1;
    rej.reason = reason;
    Inject(server, client.address, rej);
    EXPECT_EQ(server.Last().type, RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(server.Last().status, reason);
    network.copies_of = [](const Datagram&) { return 0; };
    client.manager->DestroyId(client.id);
    server.manager->DestroyId(server.id);
    network.Run(kSecond);
  }
  ExpectNothingLeft();
}

TEST_F(ManagerTest, RejectTakesAReason) {
  server.Listen();
  server.on_event = [&](const Event& event) {
    EXPECT_TRUE(
        server.manager->Reject(event.id, {}, RejectReason::kInsufficientResponderResources).ok());
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 27);
}

TEST_F(ManagerTest, InvalidRepliesEndTheConnectionAttempt) {
  const auto answer = [&](uint32_t comm_id, uint32_t qpn) {
    network.copies_of = [](const Datagram&) { return 0; };
    client.Prepare(server.address);
    EXPECT_TRUE(client.Connect().ok());
    Rep rep;
    rep.local_comm_id = comm_id;
    rep.remote_comm_id = LastSent<Req>().local_comm_id;
    rep.local_qpn = qpn;
    Inject(client, server.address, rep);
    EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_CONNECT_ERROR);
    EXPECT_EQ(LastSent<Rej>().message_rejected, 1);
    return LastSent<Rej>().reason;
  };
  EXPECT_EQ(answer(0, 0x100), 6);
  for (const uint32_t qpn : {0u, 1u, 0xFFFFFFu}) EXPECT_EQ(answer(7, qpn), 5) << qpn;
}

TEST_F(ManagerTest, OtherClassVersionsAreRefused) {
  server.Listen();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  MadBuffer mad = network.log.back().mad;
  network.copies_of = [](const Datagram&) { return 0; };
  mad[2] = 3;
  server.env->Receive(client.address, mad);
  EXPECT_EQ(LastSent<Rej>().reason, 31);
  EXPECT_EQ(LastSent<Rej>().remote_comm_id, LastSent<Req>().local_comm_id);
  EXPECT_EQ(server.drop(MadDrop::kBadHeader), 1u);
  const int sent = network.CountSent(Attribute::kRej);
  mad[17] = 0x12;  // a REJ is not answered by one
  server.env->Receive(client.address, mad);
  mad[17] = 0x10;
  mad[3] = 0x81;  // a response of another management class's kind
  server.env->Receive(client.address, mad);
  EXPECT_EQ(network.CountSent(Attribute::kRej), sent);
}

TEST_F(ManagerTest, AlternatePathsAreDeclined) {
  Establish();
  EXPECT_EQ(LastSent<Rep>().failover_accepted, 0);
  Req req = LastSent<Req>();
  req.local_comm_id ^= 1;
  req.local_qpn ^= 0x800;
  req.alternate.local_gid = client.address;
  Inject(server, client.address, req);
  ASSERT_TRUE(network.RunUntil([&] { return network.CountSent(Attribute::kRep) == 2; }));
  EXPECT_EQ(LastSent<Rep>().failover_accepted, 1);
}

}  // namespace
}  // namespace pollux::cm
