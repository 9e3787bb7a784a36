#include "cm/connection/request_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

bool Open(uint32_t) { return true; }

TEST(RequestWindow, RequestsAboveTheLimitWaitInOrder) {
  RequestWindow window;
  for (uint32_t i = 0; i < RequestWindow::kMax; ++i) EXPECT_TRUE(window.Enter(i, 0, Open)) << i;
  EXPECT_FALSE(window.Enter(100, 0, Open));
  EXPECT_FALSE(window.Enter(101, 0, Open));
  EXPECT_EQ(window.Next(0, Open), std::nullopt);
  const auto but_7 = [](uint32_t id) { return id != 7; };
  EXPECT_EQ(window.Next(0, but_7), 100u) << "in the place of what is answered";
  EXPECT_EQ(window.Next(0, Open), std::nullopt);
  const auto none = [](uint32_t) { return false; };
  EXPECT_FALSE(window.Enter(102, 0, none)) << "behind the one that waits";
  EXPECT_EQ(window.Next(0, none), 101u);
  EXPECT_EQ(window.Next(0, none), 102u);
  EXPECT_EQ(window.Next(0, none), std::nullopt);
  EXPECT_EQ(window.waiting(), 0u);
}

TEST(RequestWindow, ASlotIsReleasedAfterTheHoldTime) {
  RequestWindow window;
  for (uint32_t i = 0; i < RequestWindow::kMax; ++i) window.Enter(i, i == 0 ? 5 : 6, Open);
  EXPECT_FALSE(window.Enter(100, 7, Open));
  EXPECT_FALSE(window.Enter(101, 7, Open));
  EXPECT_EQ(window.deadline_ns(), RequestWindow::kHoldNs + 5);
  EXPECT_EQ(window.Next(window.deadline_ns() - 1, Open), std::nullopt);
  EXPECT_EQ(window.Next(window.deadline_ns(), Open), 100u);
  EXPECT_EQ(window.Next(window.deadline_ns() - 1, Open), std::nullopt);
  EXPECT_EQ(window.Next(window.deadline_ns(), Open), 101u);
}

TEST(RequestWindow, ACancelledRequestIsNotSent) {
  RequestWindow window;
  for (uint32_t i = 0; i < RequestWindow::kMax; ++i) window.Enter(i, 0, Open);
  for (const uint32_t id : {100u, 101u, 102u}) EXPECT_FALSE(window.Enter(id, 0, Open));
  window.Cancel(101);
  window.Cancel(3);  // which is out
  EXPECT_EQ(window.waiting(), 2u);
  EXPECT_EQ(window.Next(RequestWindow::kHoldNs, Open), 100u);
  EXPECT_EQ(window.Next(RequestWindow::kHoldNs, Open), 102u);
}

// Many connections of one client to one server, asked for in one go.
class RequestWindowTest : public ManagerTest {
 protected:
  static constexpr size_t kCount = 3 * RequestWindow::kMax + 1;

  // A client's identifiers on their way; `copies_of` sees every datagram first.
  void AskForMany() {
    server.Listen();
    server.on_event = [this](const Event& event) {
      if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
      ConnectionParam param;
      param.qp_num = 0x100000 + static_cast<uint32_t>(accepted.size());
      accepted.push_back(event.id);
      EXPECT_TRUE(server.manager->Accept(event.id, param).ok());
    };
    for (size_t i = 0; i < kCount; ++i) {
      client.Resolve(server.address);
      ids.push_back(client.id);
    }
    client.events.clear();
    for (size_t i = 0; i < kCount; ++i) {
      client.id = ids[i];
      client.param.qp_num = 0x200000 + static_cast<uint32_t>(i);
      ASSERT_TRUE(client.Connect().ok());
    }
    client.on_event = [this](const Event& event) {
      if (event.type != RDMA_CM_EVENT_CONNECT_RESPONSE) return;
      EXPECT_TRUE(client.manager->Establish(event.id).ok());
    };
  }
  size_t Count(const Host& host, rdma_cm_event_type type) {
    return static_cast<size_t>(std::ranges::count(host.events, type, &Seen::type));
  }
  // The queue pairs of the REQs that were sent, without repetitions.
  std::vector<uint32_t> Asked() {
    std::vector<uint32_t> asked;
    for (const Datagram& datagram : network.log) {
      const Mad mad = *ParseMad(datagram.mad);
      const Req* req = std::get_if<Req>(&mad.message);
      if (req == nullptr || std::ranges::find(asked, req->local_qpn) != asked.end()) continue;
      asked.push_back(req->local_qpn);
    }
    return asked;
  }
  bool AllAre(const Host& host, rdma_cm_event_type type) { return Count(host, type) == kCount; }
  void DestroyAll() {
    for (Id* id : ids) client.manager->DestroyId(id);
    for (Id* id : accepted) server.manager->DestroyId(id);
  }

  std::vector<Id*> ids;
  std::vector<Id*> accepted;
};

TEST_F(RequestWindowTest, AtMostMaxRequestsAreUnanswered) {
  size_t out = 0, most = 0;
  network.copies_of = [&](const Datagram& datagram) {
    const Attribute attribute = ParseMadHeader(datagram.mad)->attribute;
    out += attribute == Attribute::kReq || attribute == Attribute::kDreq;
    out -= attribute == Attribute::kRep || attribute == Attribute::kDrep;
    most = std::max(most, out);
    return 1;
  };
  AskForMany();
  EXPECT_EQ(network.CountSent(Attribute::kReq), static_cast<int>(RequestWindow::kMax));
  ASSERT_TRUE(network.RunUntil([&] { return AllAre(server, RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_EQ(Asked().front(), 0x200000u);
  EXPECT_TRUE(std::ranges::is_sorted(Asked()));
  for (Id* id : ids) ASSERT_TRUE(client.manager->Disconnect(id).ok());
  EXPECT_EQ(network.CountSent(Attribute::kDreq), static_cast<int>(RequestWindow::kMax));
  ASSERT_TRUE(network.RunUntil([&] { return AllAre(client, RDMA_CM_EVENT_DISCONNECTED); }));
  EXPECT_EQ(most, RequestWindow::kMax);
  EXPECT_EQ(client.manager->counters().of(Attribute::kReq).retries, 0u);
  EXPECT_EQ(client.manager->counters().of(Attribute::kDreq).retries, 0u);
  DestroyAll();
  ExpectNothingLeft();
}

TEST_F(RequestWindowTest, AllAreConnectedUnderLoss) {
  network.copies_of = [this](const Datagram&) { return network.random.Chance(0.2) ? 0 : 1; };
  AskForMany();
  ASSERT_TRUE(network.RunUntil([&] { return AllAre(server, RDMA_CM_EVENT_ESTABLISHED); }));
  for (Id* id : ids) ASSERT_TRUE(client.manager->Disconnect(id).ok());
  ASSERT_TRUE(network.RunUntil([&] {
    return AllAre(client, RDMA_CM_EVENT_TIMEWAIT_EXIT) &&
           AllAre(server, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }));
  DestroyAll();
  ExpectNothingLeft();
}

TEST_F(RequestWindowTest, ASilentPeerDelaysOtherRequestsOnlyBriefly) {
  network.copies_of = [](const Datagram&) { return 0; };
  AskForMany();
  network.Run(RequestWindow::kHoldNs / 2);
  EXPECT_EQ(Asked().size(), RequestWindow::kMax);
  network.Run(RequestWindow::kHoldNs);
  EXPECT_EQ(Asked().size(), 2 * RequestWindow::kMax);
  network.Run(2 * RequestWindow::kHoldNs);
  EXPECT_EQ(Asked().size(), kCount);
  ASSERT_TRUE(network.RunUntil([&] { return AllAre(client, RDMA_CM_EVENT_UNREACHABLE); }));
  EXPECT_EQ(network.CountSent(Attribute::kReq), static_cast<int>(kCount) * 16) << "each in full";
  DestroyAll();
  ExpectNothingLeft();
}

// A peer that asks for time has the request.
TEST_F(RequestWindowTest, AnMraReleasesTheSlot) {
  AskForMany();
  server.on_event = [this](const Event& event) {
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    accepted.push_back(event.id);
    EXPECT_TRUE(server.manager->SendMra(event.id, 24).ok());
  };
  network.Run(RequestWindow::kHoldNs / 2);
  EXPECT_EQ(Asked().size(), kCount);
  DestroyAll();
  ExpectNothingLeft();
}

TEST_F(RequestWindowTest, ARequestDestroyedBeforeItsTurnIsNotSent) {
  AskForMany();
  for (size_t i = RequestWindow::kMax; i < kCount; ++i) client.manager->DestroyId(ids[i]);
  EXPECT_EQ(network.CountSent(Attribute::kRej), 0);
  ids.resize(RequestWindow::kMax);
  ASSERT_TRUE(network.RunUntil(
      [&] { return Count(server, RDMA_CM_EVENT_ESTABLISHED) == RequestWindow::kMax; }));
  EXPECT_EQ(Asked().size(), RequestWindow::kMax);
  DestroyAll();
  ExpectNothingLeft();
}

// It is not repeated before it was sent, but is answered for.
TEST_F(RequestWindowTest, AtProcessExitOnlyDreqsAlreadySentAreRepeated) {
  AskForMany();
  ASSERT_TRUE(network.RunUntil([&] { return AllAre(server, RDMA_CM_EVENT_ESTABLISHED); }));
  for (Id* id : std::exchange(ids, {})) client.manager->DestroyId(id);
  EXPECT_EQ(client.manager->unanswered_disconnects(), kCount);
  client.manager->RepeatDisconnects();
  EXPECT_EQ(network.CountSent(Attribute::kDreq), static_cast<int>(2 * RequestWindow::kMax));
  network.Run(kSecond / 100);
  EXPECT_EQ(client.manager->unanswered_disconnects(), 0u);
  DestroyAll();
  ExpectNothingLeft();
}

// With peers that are silent, and no time to wait for each.
TEST_F(RequestWindowTest, AtProcessExitEachPeerGetsOneDreq) {
  AskForMany();
  ASSERT_TRUE(network.RunUntil([&] { return AllAre(server, RDMA_CM_EVENT_ESTABLISHED); }));
  network.copies_of = [](const Datagram&) { return 0; };
  for (Id* id : std::exchange(ids, {})) client.manager->DestroyId(id);
  int calls = 0;
  while (client.manager->SendWaitingDisconnects()) ++calls;
  EXPECT_EQ(network.CountSent(Attribute::kDreq), static_cast<int>(kCount));
  EXPECT_EQ(calls, static_cast<int>((kCount - 1) / RequestWindow::kMax)) << "so many at once";
  EXPECT_EQ(client.manager->unanswered_disconnects(), kCount);
  network.copies_of = [](const Datagram&) { return 1; };
  client.manager->RepeatDisconnects();
  network.Run(kSecond / 100);
  EXPECT_EQ(client.manager->unanswered_disconnects(), 0u);
  DestroyAll();
  ExpectNothingLeft();
}

// The timer was armed for requests that are answered by then, and nobody waited meanwhile.
TEST_F(RequestWindowTest, SlotsTakenAfterTheTimerWasArmedAreReleasedInTime) {
  const uint64_t begun_ns = network.now_ns;
  AskForMany();
  while (ids.size() > RequestWindow::kMax) {
    client.manager->DestroyId(ids.back());
    ids.pop_back();
  }
  ASSERT_TRUE(network.RunUntil(
      [&] { return Count(server, RDMA_CM_EVENT_ESTABLISHED) == RequestWindow::kMax; }));
  for (size_t i = 0; i < RequestWindow::kMax + 1; ++i) {
    client.Resolve(server.address);
    ids.push_back(client.id);
  }
  network.copies_of = [](const Datagram&) { return 0; };
  for (size_t i = RequestWindow::kMax; i < ids.size(); ++i) {
    client.id = ids[i];
    client.param.qp_num = 0x300000 + static_cast<uint32_t>(i);
    ASSERT_TRUE(client.Connect().ok());
  }
  ASSERT_LT(network.now_ns, begun_ns + RequestWindow::kHoldNs) << "the timer is armed still";
  EXPECT_EQ(Asked().size(), 2 * RequestWindow::kMax);
  network.Run(2 * RequestWindow::kHoldNs);
  EXPECT_EQ(Asked().size(), 2 * RequestWindow::kMax + 1);
  DestroyAll();
  ExpectNothingLeft();
}

TEST_F(RequestWindowTest, AQueuedDisconnectMayCrossThePeersDisconnect) {
  AskForMany();
  ASSERT_TRUE(network.RunUntil([&] { return AllAre(server, RDMA_CM_EVENT_ESTABLISHED); }));
  for (Id* id : ids) ASSERT_TRUE(client.manager->Disconnect(id).ok());
  for (Id* id : accepted) ASSERT_TRUE(server.manager->Disconnect(id).ok());
  ASSERT_TRUE(network.RunUntil([&] {
    return AllAre(client, RDMA_CM_EVENT_DISCONNECTED) && AllAre(server, RDMA_CM_EVENT_DISCONNECTED);
  }));
  DestroyAll();
  ExpectNothingLeft();
}

}  // namespace
}  // namespace pollux::cm
