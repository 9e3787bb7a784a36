// Connections whose queue pair lives on another worker than their manager.
#include "cm/connection/failure_relay.h"

#include <gtest/gtest.h>

#include <string>

#include "cm/node_fixture.h"

namespace pollux::cm {
namespace {

class FailureRelayTest : public EndToEndTest {
 protected:
  struct Told {
    int times = 0;
    std::string why, log;
  };
  // Connects with the client's queue pair on `owner`, which sends from its own address: the server
  // drops what comes from there.
  void ConnectByWayOf(sim::Node& owner) {
    client->qp_worker = &owner.worker();
    client->manager->SetFailureHandler([this](const Id& id, const std::string& why) {
      EXPECT_EQ(&id, client->id);
      ++told.times;
      told.why = why;
      told.log = client->manager->FlightLog(id);
    });
    client->StartConnect(server->address);
    ASSERT_TRUE(RunUntil([&] { return client->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
    client->PostSend("into the void");
  }
  Told told;
};

TEST_F(FailureRelayTest, AFailureOnAnotherCoreIsReportedOnce) {
  Start(1, {});
  sim::Node& other = world->AddNode();
  ConnectByWayOf(other);
  ASSERT_TRUE(RunUntil([&] { return told.times > 0; }));
  EXPECT_EQ(client->qp->state(), IBV_QPS_ERR);
  EXPECT_NE(told.why.find("transport retry counter exceeded"), std::string::npos) << told.why;
  for (const char* part : {"-> CM REQ", "-> RC SEND"}) {
    EXPECT_NE(told.log.find(part), std::string::npos) << part << "\n" << told.log;
  }
  world->RunFor(kSecond);
  EXPECT_EQ(told.times, 1);
  client->Release();
  server->Release();
  Stop();
}

// The message is on its way when the manager goes.
TEST_F(FailureRelayTest, AFailureIsNotReportedToADestroyedManager) {
  Start(1, {});
  sim::Node& other = world->AddNode();
  ConnectByWayOf(other);
  verbs::QueuePair* const qp = client->qp;
  while (qp->state() == IBV_QPS_RTS) other.worker().Poll(other.worker().now_ns() + kSecond);
  client->Release();
  client->manager.reset();
  world->RunFor(kSecond);
  EXPECT_EQ(told.times, 0);
  server->Release();
  Stop();
}

}  // namespace
}  // namespace pollux::cm
