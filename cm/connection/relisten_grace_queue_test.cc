#include "cm/connection/relisten_grace_queue.h"

#include <gtest/gtest.h>

#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

constexpr uint64_t kGrace = 2 * kSecond;

HeldRequest From(uint8_t host, uint64_t transaction_id, uint16_t port = kPort) {
  return {.from = Gid::FromIpv4(0xC0000200 + host),
          .transaction_id = transaction_id,
          .service = {RDMA_PS_TCP, port}};
}
bool Nobody(const HeldRequest&) { return false; }
bool Somebody(const HeldRequest&) { return true; }

TEST(RelistenGraceQueue, KeepsRequestsOnlyAfterAListenerEnded) {
  RelistenGraceQueue early(kGrace);
  EXPECT_FALSE(early.Keep(From(1, 1), 0));
  early.ListenerEnded(kPort, 100);
  EXPECT_FALSE(early.Keep(From(1, 1, kPort + 1), 100));
  EXPECT_TRUE(early.Keep(From(1, 1), 100 + kGrace - 1));
  EXPECT_FALSE(early.Keep(From(1, 2), 100 + kGrace));
  RelistenGraceQueue none(0);
  none.ListenerEnded(kPort, 100);
  EXPECT_FALSE(none.Keep(From(1, 1), 100));
}

TEST(RelistenGraceQueue, RequestsAreDueWhenAListenerAppearsOrTheGraceEnds) {
  RelistenGraceQueue early(kGrace);
  early.ListenerEnded(kPort, 0);
  ASSERT_TRUE(early.Keep(From(1, 1), 10));
  ASSERT_TRUE(early.Keep(From(2, 1), 20));
  EXPECT_TRUE(early.Keep(From(1, 1), 20)) << "sent again";
  EXPECT_TRUE(early.TakeDue(20, Nobody).empty());
  const std::vector<HeldRequest> due = early.TakeDue(10 + kGrace, Nobody);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].from, From(1, 1).from);
  ASSERT_TRUE(early.Keep(From(3, 1), 30));
  const std::vector<HeldRequest> served = early.TakeDue(30, Somebody);
  ASSERT_EQ(served.size(), 2u);
  EXPECT_EQ(served[0].from, From(2, 1).from);
  EXPECT_TRUE(early.empty());
}

TEST(RelistenGraceQueue, RequestsAndEndedListenersAreBounded) {
  RelistenGraceQueue early(kGrace);
  early.ListenerEnded(kPort, 0);
  for (uint64_t i = 0; i < RelistenGraceQueue::kMaxRequests; ++i) {
    ASSERT_TRUE(early.Keep(From(1, i), 1));
  }
  EXPECT_FALSE(early.Keep(From(1, RelistenGraceQueue::kMaxRequests), 1));
  EXPECT_TRUE(early.Keep(From(1, 0), 1));
  early.TakeDue(1, Somebody);
  for (uint16_t i = 1; i < RelistenGraceQueue::kMaxEnded; ++i) early.ListenerEnded(kPort + i, 2);
  EXPECT_TRUE(early.Keep(From(1, 1), 2));
  early.ListenerEnded(kPort + 1, 3);
  EXPECT_TRUE(early.Keep(From(1, 2), 3)) << "the same port again takes no room";
  early.ListenerEnded(kPort + RelistenGraceQueue::kMaxEnded, 4);
  EXPECT_FALSE(early.Keep(From(1, 3), 4));
}

class BetweenListenersTest : public ManagerTest {
 protected:
  // The client asks a server whose listener has just ended.
  void AskBetweenListeners() {
    server.Listen();
    server.manager->DestroyId(server.listener);
    server.listener = nullptr;
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    network.Run(kSecond);
    EXPECT_FALSE(client.Saw(RDMA_CM_EVENT_REJECTED));
  }
  void AskAndListenLater() {
    AskBetweenListeners();
    server.Listen();
    server.AcceptAll();
    ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
    client.manager->DestroyId(client.id);
  }

  Host server{&network, 3, {.relisten_ns = kGrace}};
};

TEST_F(BetweenListenersTest, ARequestIsDeliveredToTheNextListener) {
  AskAndListenLater();
  EXPECT_EQ(network.CountSent(Attribute::kReq), 1);
}

TEST_F(BetweenListenersTest, ASidrRequestIsDeliveredToTheNextListener) {
  client.port_space = server.port_space = RDMA_PS_UDP;
  AskAndListenLater();
  EXPECT_EQ(network.CountSent(Attribute::kSidrReq), 1);
}

TEST_F(BetweenListenersTest, RequestIsRefusedWhenNobodyListensAgain) {
  AskBetweenListeners();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 8);
  client.manager->DestroyId(client.id);
  network.Run(10 * kSecond);
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }, kGrace / 2));
}

}  // namespace
}  // namespace pollux::cm
