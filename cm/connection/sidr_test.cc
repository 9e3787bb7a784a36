// RDMA_PS_UDP: who answers for a UD queue pair, under loss and from strangers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "cm/connection/manager_fixture.h"
#include "cm/wire/service_id.h"

namespace pollux::cm {
namespace {

class SidrTest : public ManagerTest {
 protected:
  SidrTest() { client.port_space = server.port_space = RDMA_PS_UDP; }
  int Count(const Host& host, rdma_cm_event_type type) {
    return static_cast<int>(
        std::ranges::count_if(host.events, [&](const Seen& seen) { return seen.type == type; }));
  }
  bool ClientDone() {
    return client.Saw(RDMA_CM_EVENT_ESTABLISHED) || client.Saw(RDMA_CM_EVENT_UNREACHABLE);
  }
};

TEST_F(SidrTest, ResolvesAQueuePair) {
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  ASSERT_EQ(server.events.size(), 1u);  // nothing follows the request on the passive side
  ASSERT_EQ(server.events[0].private_data.size(), 180u);
  EXPECT_EQ(server.events[0].private_data[1], 2);
  EXPECT_EQ(server.id->peer(), client.id->local());
  const Seen& seen = client.events.back();
  EXPECT_EQ(seen.type, RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_EQ(seen.private_data.size(), 136u);
  EXPECT_EQ(seen.private_data[3], 7);
  EXPECT_EQ(seen.ud.qp_num, server.qp().qpn().value);
  EXPECT_EQ(seen.ud.qkey, 0x01234567u);
  EXPECT_TRUE(std::ranges::equal(seen.ud.ah_attr.grh.dgid.raw, server.address.raw));
  EXPECT_EQ(seen.ud.ah_attr.is_global, 1);
  EXPECT_EQ(seen.ud.ah_attr.grh.traffic_class, 0);
  for (Host* host : {&client, &server}) {
    EXPECT_EQ(host->qp().attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(host->qp().attr.qkey, 0x01234567u);
  }
  EXPECT_EQ(LastSent<SidrReq>().service_id, (ServiceId{RDMA_PS_UDP, kPort}.ToWire()));
  EXPECT_EQ(LastSent<SidrRep>().service_id, (ServiceId{RDMA_PS_UDP, kPort}.ToWire()));
  EXPECT_FALSE(client.Connect().ok());
  EXPECT_FALSE(server.Accept().ok());
  EXPECT_FALSE(client.manager->Disconnect(client.id).ok());
  client.manager->DestroyId(client.id);
  server.manager->DestroyId(server.id);
  ExpectNothingLeft();
}

TEST_F(SidrTest, AcceptMayNameAQueuePairNumber) {
  server.Listen();
  server.param.qp_num = 0x4321;
  server.on_event = [&](const Event& event) {
    server.id = event.id;
    EXPECT_TRUE(server.Accept().ok());
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  EXPECT_EQ(client.Last().ud.qp_num, 0x4321u);
}

TEST_F(SidrTest, ARefusalCarriesItsStatusAndPrivateData) {
  server.Listen();
  server.on_event = [&](const Event& event) {
    const std::vector<uint8_t> why = {9, 8, 7};
    EXPECT_FALSE(server.manager->Accept(event.id, {}).ok());  // which queue pair?
    EXPECT_FALSE(server.manager->Reject(event.id, std::vector<uint8_t>(137)).ok());
    EXPECT_TRUE(server.manager->Reject(event.id, why).ok());
    EXPECT_FALSE(server.manager->Reject(event.id, why).ok());
  };
  client.Prepare(server.address);
  EXPECT_FALSE(client.Connect(std::vector<uint8_t>(181)).ok());
  ASSERT_TRUE(client.Connect(std::vector<uint8_t>(180)).ok());
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(client.Last().status, 2);
  EXPECT_EQ(client.Last().private_data[1], 8);

  // Destroyed unanswered.
  server.on_event = [&](const Event& event) { server.manager->DestroyId(event.id); };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  EXPECT_EQ(client.Last().status, 2);

  // Nobody listens there, though someone does for connections.
  server.manager->DestroyId(server.listener);
  server.port_space = RDMA_PS_TCP;
  server.Listen();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(client.Last().status, 1);
}

TEST_F(SidrTest, ASilentServerIsUnreachable) {
  network.copies_of = [](const Datagram&) { return 0; };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(client.Last().status, -ETIMEDOUT);
  EXPECT_EQ(network.CountSent(Attribute::kSidrReq), 16);
  EXPECT_EQ(client.manager->counters().of(Attribute::kSidrReq).retries, 15u);
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(SidrTest, LostMessagesAreResent) {
  Lose(Attribute::kSidrReq, 2);
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  EXPECT_TRUE(client.Saw(RDMA_CM_EVENT_ESTABLISHED));
  EXPECT_EQ(network.CountSent(Attribute::kSidrReq), 3);

  Lose(Attribute::kSidrRep, 2);
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return ClientDone(); }));
  EXPECT_TRUE(client.Saw(RDMA_CM_EVENT_ESTABLISHED));
  // The user was asked once for each.
  EXPECT_EQ(Count(server, RDMA_CM_EVENT_CONNECT_REQUEST), 2);
  EXPECT_EQ(server.manager->counters().of(Attribute::kSidrReq).duplicates, 2u);
}

TEST_F(SidrTest, DuplicatedMessagesChangeNothing) {
  network.copies_of = [](const Datagram&) { return 2; };
  Start();
  network.Run(kSecond);
  EXPECT_EQ(Count(server, RDMA_CM_EVENT_CONNECT_REQUEST), 1);
  EXPECT_EQ(Count(client, RDMA_CM_EVENT_ESTABLISHED), 1);
  EXPECT_GE(client.manager->counters().of(Attribute::kSidrRep).duplicates, 1u);
}

TEST_F(SidrTest, RepliesFromOtherHostsAndLateRepliesAreDropped) {
  server.Listen();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  SidrRep rep;
  rep.request_id = LastSent<SidrReq>().request_id;
  Inject(client, Gid::FromIpv4(0xC0000209), rep);
  EXPECT_EQ(client.drop(MadDrop::kWrongPeer), 1u);
  EXPECT_FALSE(ClientDone());
  // The same request ID of another host is another request.
  SidrReq req = LastSent<SidrReq>();
  Inject(server, client.address, req);
  Inject(server, Gid::FromIpv4(0xC0000209), req);
  EXPECT_EQ(Count(server, RDMA_CM_EVENT_CONNECT_REQUEST), 2);
  req.private_data[1] = 0;  // no CMA header
  req.request_id ^= 1;
  Inject(server, client.address, req);
  EXPECT_EQ(LastSent<SidrRep>().status, 2);
  client.manager->DestroyId(client.id);
  rep.request_id = LastSent<SidrReq>().request_id;
  Inject(client, server.address, rep);
  EXPECT_EQ(client.drop(MadDrop::kUnknownCommId), 1u);
}

TEST_F(SidrTest, WaitingRequestsAreBounded) {
  Host small{&network, 5, {.max_ids = 4, .max_pending_requests = 2}};
  small.port_space = RDMA_PS_UDP;
  small.Listen();
  std::vector<Id*> asked;
  small.on_event = [&](const Event& event) { asked.push_back(event.id); };
  client.Prepare(small.address);
  ASSERT_TRUE(client.Connect().ok());
  SidrReq req = LastSent<SidrReq>();
  const auto knock = [&] {
    ++req.request_id;
    Inject(small, client.address, req);
  };
  for (int i = 0; i < 5; ++i) knock();
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(small.drop(MadDrop::kBacklogFull), 3u);
  ASSERT_TRUE(small.manager->Reject(asked[0], {}).ok());
  knock();
  ASSERT_TRUE(small.manager->Reject(asked[1], {}).ok());
  EXPECT_EQ(asked.size(), 3u);
  knock();  // answered identifiers stay until they are destroyed
  EXPECT_EQ(asked.size(), 3u);
  EXPECT_EQ(LastSent<SidrRep>().status, 2);
  small.manager->DestroyId(asked[0]);
  knock();
  EXPECT_EQ(asked.size(), 4u);
}

}  // namespace
}  // namespace pollux::cm
