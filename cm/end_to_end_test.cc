// CM and RC together: connections made, used and broken between whole nodes.
#include <gtest/gtest.h>

#include "cm/node_fixture.h"

namespace pollux::cm {
namespace {

TEST_F(EndToEndTest, AConnectionCarriesMessagesAndDisconnects) {
  Start(1, {});
  OneConnection(true);
  EXPECT_EQ(client->manager->counters().of(Attribute::kReq).sent, 1u);
  EXPECT_EQ(server->manager->counters().of(Attribute::kRep).sent, 1u);
  EXPECT_EQ(server->manager->counters().of(Attribute::kRtu).received, 1u);
  Stop();
}

TEST_F(EndToEndTest, WithoutAListenerTheRequestIsRejected) {
  Start(1, {});
  server->manager->DestroyId(server->listener);
  client->StartConnect(server->address);
  ASSERT_TRUE(RunUntil([&] { return client->Saw(RDMA_CM_EVENT_REJECTED); }));
  client->Release();
  Stop();
}

// The RTU is lost; the client's first message tells the server, long before its REP would be sent
// again.
TEST_F(EndToEndTest, TheFirstMessageEstablishes) {
  Start(1, {});
  client->StartConnect(server->address);
  ASSERT_TRUE(RunUntil([&] { return client->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  server->port->SetUp(false);
  world->RunFor(kSecond / 1000);
  server->port->SetUp(true);
  EXPECT_FALSE(server->Saw(RDMA_CM_EVENT_ESTABLISHED));
  const uint64_t start_ns = world->now_ns();
  client->PostSend("hello");
  ASSERT_TRUE(RunUntil([&] { return server->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_LT(world->now_ns() - start_ns, kSecond / 100);
  EXPECT_EQ(server->manager->counters().of(Attribute::kRtu).received, 0u);
  ASSERT_TRUE(server->manager->Disconnect(server->id).ok());
  ASSERT_TRUE(RunUntilBothSaw(RDMA_CM_EVENT_DISCONNECTED));
  client->Release();
  server->Release();
  Stop();
}

TEST_F(EndToEndTest, AnUnresolvableAddressIsAnAddrError) {
  Start(1, {});
  client->StartConnect(Gid::FromIpv4(client->address.Ipv4() + 100));
  ASSERT_TRUE(RunUntil([&] { return client->Saw(RDMA_CM_EVENT_ADDR_ERROR); }));
  client->manager->DestroyId(client->id);
  Stop();
}

TEST_F(EndToEndTest, AThousandConnectionsLeakNothing) {
  Start(1, {});
  for (int i = 0; i < 1000 && !HasFailure(); ++i) OneConnection(i % 2 == 0);
  Stop();
}

TEST_F(EndToEndTest, ConnectionsSurviveTenPercentLoss) {
  for (uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Start(seed, {.loss = 0.1, .duplication = 0.05, .reordering = 0.05});
    for (int i = 0; i < 5 && !HasFailure(); ++i) OneConnection(i % 2 == 0);
    Stop();
  }
}

TEST(CreateAll, AManagerForNoWorkerIsRefused) {
  EXPECT_EQ(Manager::CreateAll({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pollux::cm
