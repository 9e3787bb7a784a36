// Message receipt acknowledgements: slow applications on either side.
#include <gtest/gtest.h>

#include "cm/connection/manager_fixture.h"
#include "cm/connection/timeouts.h"

namespace pollux::cm {
namespace {

constexpr uint64_t kUsualWaitNs = ResendAfterNs(16, 20);
constexpr uint64_t kLongWaitNs = ResendAfterNs(16, 24);

// A server whose application keeps every request to itself.
class MraTest : public ManagerTest {
 protected:
  void Ask() {
    server.Listen();
    server.on_event = [this](const Event& event) {
      if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) server.id = event.id;
    };
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    ASSERT_TRUE(network.RunUntil([&] { return server.id != nullptr; }));
  }
  void AcceptNow() {
    server.on_bound = [this] { server.accept_status = server.Accept(); };
    server.Bind(server.id);
  }
};

TEST_F(MraTest, ARepeatedRequestIsAnsweredByAnMra) {
  Ask();
  network.Run(60 * kSecond);
  EXPECT_EQ(network.CountSent(Attribute::kReq), 2);
  EXPECT_EQ(network.CountSent(Attribute::kMra), 1);
  EXPECT_EQ(LastSent<Mra>().service_timeout, 24);
  EXPECT_EQ(LastSent<Mra>().message_mraed, 0);
  EXPECT_EQ(LastSent<Mra>().remote_comm_id, LastSent<Req>().local_comm_id);
  AcceptNow();
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  EXPECT_EQ(server.events.size(), 2u);
}

// The time of the MRA over, the request comes again and is put off again.
TEST_F(MraTest, AnApplicationMayTakeMinutes) {
  Ask();
  network.Run(300 * kSecond);
  EXPECT_EQ(network.CountSent(Attribute::kReq), 2 + 4);
  EXPECT_EQ(network.CountSent(Attribute::kMra), 1 + 4);
  EXPECT_TRUE(client.events.back().type == RDMA_CM_EVENT_ROUTE_RESOLVED);
  AcceptNow();
  EXPECT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
}

TEST_F(MraTest, AnApplicationMaySendAnMraBeforeItAccepts) {
  Ask();
  ASSERT_TRUE(server.manager->SendMra(server.id, 22).ok());
  network.Run(TimeoutNs(22));
  EXPECT_EQ(network.CountSent(Attribute::kReq), 1);
  network.Run(kSecond);
  EXPECT_EQ(network.CountSent(Attribute::kReq), 2);
  AcceptNow();
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  EXPECT_FALSE(server.manager->SendMra(server.id, 22).ok());
  EXPECT_FALSE(client.manager->SendMra(client.id, 22).ok());
  EXPECT_FALSE(server.manager->SendMra(server.listener, 22).ok());
}

TEST_F(MraTest, ARepeatedReplyIsAnsweredByAnMraWhileTheQueuePairMoves) {
  Ask();
  client.env->moves_held = true;
  AcceptNow();
  network.Run(2 * kUsualWaitNs);
  EXPECT_EQ(network.CountSent(Attribute::kRep), 2);
  EXPECT_EQ(LastSent<Mra>().message_mraed, 1);
  EXPECT_EQ(client.manager->counters().of(Attribute::kMra).sent, 1u);
  network.Run(kLongWaitNs - 2 * kUsualWaitNs);
  EXPECT_EQ(network.CountSent(Attribute::kRep), 2);
  client.env->moves_held = false;
  EXPECT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
}

TEST_F(MraTest, ASecondMraForTheSameRequestIsADuplicate) {
  Ask();
  ASSERT_TRUE(server.manager->SendMra(server.id, 24).ok());
  network.Run(kLongWaitNs - kSecond);
  ASSERT_TRUE(server.manager->SendMra(server.id, 24).ok());  // would begin the time anew
  network.Run(2 * kSecond);
  EXPECT_EQ(client.manager->counters().of(Attribute::kMra).duplicates, 1u);
  EXPECT_EQ(network.CountSent(Attribute::kReq), 2);
}

// A peer that answers with nothing but MRAs of the longest time does not hold a connection for
// ever.
TEST_F(MraTest, EndlessMrasDoNotKeepAConnectionPending) {
  server.Listen();
  client.Prepare(server.address);
  network.copies_of = [&](const Datagram& datagram) {
    return ParseMadHeader(datagram.mad)->attribute == Attribute::kRej ? 0 : 1;
  };
  ASSERT_TRUE(client.Connect().ok());
  const uint64_t start_ns = network.now_ns;
  int heard = 0;
  while (!client.Saw(RDMA_CM_EVENT_UNREACHABLE)) {
    ASSERT_LT(++heard, 10000);
    Mra mra;
    mra.local_comm_id = 77;
    mra.remote_comm_id = LastSent<Req>().local_comm_id;
    mra.service_timeout = 31;
    Inject(client, server.address, mra);
    network.Run(kSecond);
  }
  EXPECT_LE(network.now_ns - start_ns, 16 * kLongWaitNs + 2 * kSecond);
}

}  // namespace
}  // namespace pollux::cm
