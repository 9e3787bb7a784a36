// One side is killed and starts again at the same address, sometimes with the same queue pair
// number: both sides connect again without waiting for a time-out.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

constexpr uint64_t kAtOnceNs = kSecond / 100;  // some round trips, and no time-out of CM's

class StaleTest : public ManagerTest {
 protected:
  // Nothing of `host` is left; a host that takes its place uses the same queue pair numbers.
  static void Kill(Host& host) { host.manager.reset(); }
  // What `by` comes to in its attempt to connect, soon.
  static rdma_cm_event_type Attempt(FakeNetwork& network, Host& by, const Gid& to) {
    by.Prepare(to);
    EXPECT_TRUE(by.Connect().ok());
    const auto done = [&] {
      return by.Saw(RDMA_CM_EVENT_ESTABLISHED) || by.Saw(RDMA_CM_EVENT_REJECTED) ||
             by.Saw(RDMA_CM_EVENT_CONNECT_ERROR);
    };
    EXPECT_TRUE(network.RunUntil(done, kAtOnceNs));
    return by.Last().type;
  }
};

TEST_F(StaleTest, ARestartedClientWithTheSameQueuePairNumberIsRejectedAsStale) {
  Establish();
  Id* const old = server.id;
  Kill(client);
  Host again{&network, 2};
  EXPECT_EQ(Attempt(network, again, server.address), RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(again.Last().status, 10);
  // The DREQ for the old one was answered: it is over on both sides.
  network.Run(kAtOnceNs);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_DISCONNECTED));
  EXPECT_EQ(server.qps[0]->qp.attr.qp_state, IBV_QPS_ERR);
  Kill(again);
  Host third{&network, 2};
  EXPECT_EQ(Attempt(network, third, server.address), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(third.qp().qpn(), client.qp().qpn());
  EXPECT_NE(server.id, old);
}

TEST_F(StaleTest, ARestartedClientWithAnotherQueuePairNumberConnects) {
  Establish();
  Id* const old = server.id;
  Kill(client);
  Host again{&network, 2};
  again.qps.push_back(std::make_unique<FakeQp>(1));
  again.Bind(*again.manager->CreateId(RDMA_PS_TCP, again.Handler()));  // uses up the number
  EXPECT_EQ(Attempt(network, again, server.address), RDMA_CM_EVENT_ESTABLISHED);
  // The old one ends at once, too, when its user has noticed.
  server.events.clear();
  ASSERT_TRUE(server.manager->Disconnect(old).ok());
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_DISCONNECTED); }, kAtOnceNs));
  EXPECT_EQ(server.Last().status, 0);
}

TEST_F(StaleTest, ARestartedServerWithTheSameQueuePairNumberIsRejectedAsStale) {
  Establish();
  Id* const old = client.id;
  Kill(server);
  Host again{&network, 1};
  again.Listen();
  again.AcceptAll();
  EXPECT_EQ(Attempt(network, client, again.address), RDMA_CM_EVENT_CONNECT_ERROR);
  EXPECT_EQ(client.Last().status, -ESTALE);
  EXPECT_EQ(LastSent<Rej>().reason, 10);
  EXPECT_EQ(LastSent<Rej>().message_rejected, 1);
  network.Run(kAtOnceNs);
  EXPECT_TRUE(client.Saw(RDMA_CM_EVENT_DISCONNECTED));
  EXPECT_FALSE(client.manager->Connect(old, {}).ok());
  EXPECT_TRUE(again.Saw(RDMA_CM_EVENT_REJECTED));
  Kill(again);
  Host third{&network, 1};
  third.Listen();
  third.AcceptAll();
  EXPECT_EQ(Attempt(network, client, third.address), RDMA_CM_EVENT_ESTABLISHED);
}

// Not yet established, the old attempt is over, and the new one goes on.
TEST_F(StaleTest, AClientKilledBeforeTheServerAcceptsCanReconnect) {
  server.Listen();
  Id* first = nullptr;
  server.on_event = [&](const Event& event) { first = event.id; };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return first != nullptr; }));
  Kill(client);
  server.AcceptAll();
  Host again{&network, 2};
  EXPECT_EQ(Attempt(network, again, server.address), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_REJECTED));
  EXPECT_FALSE(server.manager->Accept(first, {}).ok());
  EXPECT_EQ(network.CountSent(Attribute::kRej), 0);
}

TEST_F(StaleTest, AClientKilledBeforeItsRtuCanReconnect) {
  Lose(Attribute::kRtu, 1);
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  Kill(client);
  Host again{&network, 2};
  EXPECT_EQ(Attempt(network, again, server.address), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_REJECTED));
  EXPECT_EQ(server.qps[0]->qp.attr.qp_state, IBV_QPS_ERR);
}

TEST_F(StaleTest, AClientKilledWhileTheServerDisconnectsCanReconnect) {
  Establish();
  Kill(client);
  ASSERT_TRUE(server.manager->Disconnect(server.id).ok());
  network.Run(kAtOnceNs);  // the DREQ reaches nobody
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_DISCONNECTED));
  Host again{&network, 2};
  EXPECT_EQ(Attempt(network, again, server.address), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_DISCONNECTED));
  again.manager->DestroyId(again.id);
  server.manager->DestroyId(server.id);
  network.Run(100 * kSecond);
  EXPECT_EQ(again.manager->size(), 0u);
  EXPECT_EQ(server.manager->size(), 2u);  // the listener, and what the test forgot
}

// A server that comes back answers for what it does not know.
TEST_F(StaleTest, TheClientReconnectsIfTheServerIsKilledDuringADisconnect) {
  Establish();
  Kill(server);
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  network.Run(kAtOnceNs);
  Host again{&network, 1};
  again.Listen();
  again.AcceptAll();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  EXPECT_EQ(client.Last().status, 0);
  EXPECT_EQ(Attempt(network, client, again.address), RDMA_CM_EVENT_ESTABLISHED);
}

// Its REQ repeated, a client hears from a server that was killed in between and does not know it.
TEST_F(StaleTest, ARestartedServerAnswersARepeatedRequest) {
  server.Listen();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  network.Run(kAtOnceNs);
  Kill(server);
  Host again{&network, 1};
  again.Listen();
  again.AcceptAll();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_EQ(network.CountSent(Attribute::kReq), 2);
}

}  // namespace
}  // namespace pollux::cm
