// How connections end: DREQ, DREP, time-wait, identifiers destroyed at any point.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cm/connection/manager_fixture.h"
#include "cm/connection/timeouts.h"

namespace pollux::cm {
namespace {

TEST_F(ManagerTest, DisconnectEntersTimeWait) {
  Establish();
  const uint64_t start_ns = network.now_ns;
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_DISCONNECTED) && server.Saw(RDMA_CM_EVENT_DISCONNECTED);
  }));
  EXPECT_EQ(client.qp().attr.qp_state, IBV_QPS_ERR);
  network.RunUntil([&] { return server.qp().attr.qp_state == IBV_QPS_ERR; }, kSecond / 100);
  EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_ERR);
  ASSERT_TRUE(network.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }));
  EXPECT_GE(network.now_ns - start_ns, TimeoutNs(17));
  EXPECT_LT(network.now_ns - start_ns, TimeoutNs(18));
  client.manager->DestroyId(client.id);
  server.manager->DestroyId(server.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, EveryIdentifierGetsDeviceRemoval) {
  Establish();
  server.manager->OnDeviceGone();
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_DEVICE_REMOVAL); }));
  const auto told = std::count_if(server.events.begin(), server.events.end(), [](const Seen& seen) {
    return seen.type == RDMA_CM_EVENT_DEVICE_REMOVAL;
  });
  EXPECT_EQ(told, 2) << "the listener and the connection";
  EXPECT_FALSE(client.Saw(RDMA_CM_EVENT_DEVICE_REMOVAL));
  // One that comes late, as of a client that has paused before it connects again.
  bool late = false;
  auto id = server.manager->CreateId(
      RDMA_PS_TCP, [&](const Event& event) { late = event.type == RDMA_CM_EVENT_DEVICE_REMOVAL; });
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_TRUE(network.RunUntil([&] { return late; }));
  server.manager->DestroyId(*id);
}

class DisconnectTest : public ManagerTest {
 protected:
  void Join(Host& active, Host& passive) {
    passive.Listen();
    passive.AcceptAll();
    active.Prepare(passive.address);
    ASSERT_TRUE(active.Connect().ok());
    ASSERT_TRUE(network.RunUntil([&] {
      return active.Saw(RDMA_CM_EVENT_ESTABLISHED) && passive.Saw(RDMA_CM_EVENT_ESTABLISHED);
    }));
  }
};

TEST_F(DisconnectTest, LostDisconnectMessagesAreRepeated) {
  for (const Attribute attribute : {Attribute::kDreq, Attribute::kDrep}) {
    Host a{&network, 3};
    Host b{&network, 4};
    ASSERT_NO_FATAL_FAILURE(Join(a, b));
    Lose(attribute, 2);
    ASSERT_TRUE(a.manager->Disconnect(a.id).ok());
    ASSERT_TRUE(network.RunUntil(
        [&] { return a.Saw(RDMA_CM_EVENT_DISCONNECTED) && b.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
    EXPECT_EQ(a.Last().status, 0);
    EXPECT_EQ(a.manager->counters().of(Attribute::kDreq).retries, 2u);
    // The DREQ that comes after time-wait is answered all the same.
  }
}

TEST_F(DisconnectTest, ADreqThatComesAgainInTimeWaitBringsTheDrepAgain) {
  Host a{&network, 3};
  Host b{&network, 4};
  ASSERT_NO_FATAL_FAILURE(Join(a, b));
  network.copies_of = [](const Datagram& datagram) {
    return ParseMadHeader(datagram.mad)->attribute == Attribute::kDreq ? 2 : 1;
  };
  ASSERT_TRUE(a.manager->Disconnect(a.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return a.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  EXPECT_EQ(network.CountSent(Attribute::kDrep), 2u);
}

TEST_F(ManagerTest, ADrepRepeatsTheTransactionOfItsDreq) {
  Establish();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  std::map<Attribute, uint64_t> transactions;
  for (const Datagram& sent : network.log) {
    const std::optional<MadHeader> header = ParseMadHeader(sent.mad);
    ASSERT_TRUE(header.has_value());
    transactions[header->attribute] = header->transaction_id;
  }
  ASSERT_TRUE(transactions.contains(Attribute::kDrep));
  EXPECT_EQ(transactions[Attribute::kDrep], transactions[Attribute::kDreq]);
  // The DREQ begins a transaction of its own.
  EXPECT_NE(transactions[Attribute::kDrep], transactions[Attribute::kReq]);
}

// The RTU is lost, the first packet establishes the connection, and the peer is done already.
TEST_F(ManagerTest, ADreqAfterTheFirstPacketIsReportedAfterEstablished) {
  Lose(Attribute::kRtu, 1);
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  server.manager->Notify(server.id, IBV_EVENT_COMM_EST);
  const Rep rep = LastSent<Rep>();
  Dreq dreq;
  dreq.local_comm_id = rep.remote_comm_id;
  dreq.remote_comm_id = rep.local_comm_id;
  dreq.remote_qpn = rep.local_qpn;
  Inject(server, client.address, dreq);  // in the same poll, before what was put off
  network.Run(kSecond / 100);
  ASSERT_TRUE(server.Saw(RDMA_CM_EVENT_ESTABLISHED));
  EXPECT_EQ(server.Last().type, RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(ManagerTest, DisconnectTimesOutOnASilentPeer) {
  Establish();
  network.copies_of = [](const Datagram&) { return 0; };
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  EXPECT_EQ(client.Last().status, -ETIMEDOUT);
  EXPECT_EQ(network.CountSent(Attribute::kDreq), 16);
}

// As a process does that ends: it does not wait until the DREQ is due again.
TEST_F(DisconnectTest, RepeatDisconnectsResendsUnansweredDreqs) {
  for (const Attribute attribute : {Attribute::kDreq, Attribute::kDrep}) {
    Host a{&network, 3};
    Host b{&network, 4};
    ASSERT_NO_FATAL_FAILURE(Join(a, b));
    EXPECT_EQ(a.manager->unanswered_disconnects(), 0u);
    Lose(attribute, 1);
    a.manager->DestroyId(a.id);
    network.Run(kSecond / 100);
    EXPECT_EQ(a.manager->unanswered_disconnects(), 1u);
    EXPECT_EQ(b.Saw(RDMA_CM_EVENT_DISCONNECTED), attribute == Attribute::kDrep);
    a.manager->RepeatDisconnects();
    network.Run(kSecond / 100);
    EXPECT_EQ(a.manager->unanswered_disconnects(), 0u);
    EXPECT_TRUE(b.Saw(RDMA_CM_EVENT_DISCONNECTED));
    EXPECT_EQ(a.manager->counters().of(Attribute::kDreq).retries, 1u);
    a.manager->RepeatDisconnects();
    EXPECT_EQ(a.manager->counters().of(Attribute::kDreq).sent, 2u) << "nothing is left to repeat";
  }
}

TEST_F(ManagerTest, RepeatAnswersResendsDreps) {
  Establish();
  Lose(Attribute::kDrep, 1);
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  network.Run(kSecond / 100);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_DISCONNECTED));
  EXPECT_EQ(client.manager->unanswered_disconnects(), 1u);
  server.manager->DestroyId(server.id);
  client.manager->RepeatAnswers();
  server.manager->RepeatAnswers();
  network.Run(kSecond / 100);
  EXPECT_EQ(client.manager->unanswered_disconnects(), 0u);
  EXPECT_TRUE(client.Saw(RDMA_CM_EVENT_DISCONNECTED));
  EXPECT_EQ(client.Last().status, 0);
  EXPECT_EQ(server.manager->counters().of(Attribute::kDrep).retries, 1u);
  EXPECT_EQ(client.manager->counters().of(Attribute::kDreq).sent, 1u) << "which is no answer";
}

TEST_F(ManagerTest, DuplicatedMessagesChangeNothing) {
  network.copies_of = [](const Datagram&) { return 2; };
  Establish();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }));
  EXPECT_EQ(server.events.size(), 4u);
  EXPECT_GE(server.manager->counters().of(Attribute::kReq).duplicates, 1u);
  EXPECT_GE(client.manager->counters().of(Attribute::kRep).duplicates, 1u);
  EXPECT_GE(server.manager->counters().of(Attribute::kRtu).duplicates, 1u);
  EXPECT_GE(server.manager->counters().of(Attribute::kDreq).duplicates, 1u);
  EXPECT_GE(client.manager->counters().of(Attribute::kDrep).duplicates, 1u);
}

TEST_F(ManagerTest, CrossingDisconnectsGiveOneEventEach) {
  Establish();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(server.manager->Disconnect(server.id).ok());
  ASSERT_TRUE(network.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }));
  for (const Host* host : {&client, &server}) {
    EXPECT_EQ(
        std::ranges::count_if(
            host->events, [](const Seen& seen) { return seen.type == RDMA_CM_EVENT_DISCONNECTED; }),
        1);
  }
}

TEST_F(ManagerTest, AReleasedQueuePairIsNotModified) {
  Establish();
  client.manager->ReleaseQp(client.id);
  EXPECT_EQ(client.id->qp(), nullptr);
  const ibv_qp_state before = client.qp().state();
  client.qps.pop_back();
  EXPECT_EQ(before, IBV_QPS_RTS);
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && server.Saw(RDMA_CM_EVENT_DISCONNECTED);
  }));
}

// What a process that dies leaves behind.
class KeptFrames final : public DreqKeeper {
 public:
  uint32_t Keep(std::span<const uint8_t> frame) override {
    if (full) return kNowhere;
    kept[next] = {frame.begin(), frame.end()};
    return next++;
  }
  void Forget(uint32_t place) override { EXPECT_EQ(kept.erase(place), 1u) << "forgotten once"; }
  std::map<uint32_t, std::vector<uint8_t>> kept;
  uint32_t next = 0;
  bool full = false;
};

class KeptDreqTest : public ManagerTest {
 protected:
  KeptDreqTest() {
    client.manager->SetDreqKeeper(&of_client);
    server.manager->SetDreqKeeper(&of_server);
  }
  KeptFrames of_client, of_server;
};

TEST_F(KeptDreqTest, DisconnectsThePeerOnceItsSenderIsGone) {
  Start();
  EXPECT_TRUE(of_client.kept.empty());
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  ASSERT_EQ(of_client.kept.size(), 1u);
  ASSERT_EQ(of_server.kept.size(), 1u);
  const std::vector<uint8_t> from_client = of_client.kept[0], from_server = of_server.kept[0];
  server.env->Receive(client.address, from_client);
  EXPECT_EQ(server.Last().type, RDMA_CM_EVENT_DISCONNECTED);
  client.env->Receive(server.address, from_server);
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_TRUE(of_client.kept.empty());
  EXPECT_TRUE(of_server.kept.empty());
}

TEST_F(KeptDreqTest, IsKeptUntilThePeerHasAnswered) {
  Establish();
  Lose(Attribute::kDreq, 1);
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  network.Run(kSecond / 10);
  EXPECT_EQ(of_client.kept.size(), 1u);
  EXPECT_EQ(of_server.kept.size(), 1u);
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  EXPECT_TRUE(of_client.kept.empty());
  EXPECT_TRUE(of_server.kept.empty());
}

TEST_F(KeptDreqTest, IsRemovedWhenThePeerNeverAnswers) {
  Establish();
  network.copies_of = [](const Datagram&) { return 0; };
  client.manager->DestroyId(client.id);
  server.manager->DestroyId(server.id);
  EXPECT_EQ(of_client.kept.size(), 1u);
  ExpectNothingLeft();
  EXPECT_TRUE(of_client.kept.empty());
  EXPECT_TRUE(of_server.kept.empty());
}

TEST_F(KeptDreqTest, ConnectionsWorkWithoutRoomOrAResolvedPeer) {
  of_client.full = true;
  server.env->resolvable = false;
  Establish();
  EXPECT_TRUE(of_client.kept.empty());
  EXPECT_TRUE(of_server.kept.empty());
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  EXPECT_TRUE(network.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_DISCONNECTED) && server.Saw(RDMA_CM_EVENT_DISCONNECTED);
  }));
}

class GoneQueuePairTest : public ManagerTest {
 protected:
  // The client has none any more that the answer is about.
  void ExpectTheAnswerRefused() {
    ASSERT_TRUE(network.RunUntil([&] {
      return client.Saw(RDMA_CM_EVENT_CONNECT_ERROR) && server.Saw(RDMA_CM_EVENT_REJECTED);
    }));
    EXPECT_EQ(client.Last().status, -EINVAL);
    EXPECT_EQ(server.Last().status, static_cast<int>(RejectReason::kNoResources));
    client.manager->DestroyId(client.id);
    server.manager->DestroyId(server.id);
    ExpectNothingLeft();
  }
};

TEST_F(GoneQueuePairTest, AQueuePairThatIsReleasedBeforeTheAnswerIsNotConnected) {
  Start();
  client.manager->ReleaseQp(client.id);
  client.qps.pop_back();
  ExpectTheAnswerRefused();
}

// The peer has been told of the one before.
TEST_F(GoneQueuePairTest, AQueuePairThatIsReplacedBeforeTheAnswerIsNotConnected) {
  Start();
  client.manager->ReleaseQp(client.id);
  client.Bind(client.id);
  ExpectTheAnswerRefused();
}

TEST_F(GoneQueuePairTest, AQueuePairThatIsReleasedAfterTheAnswerIsNotConnected) {
  Start();
  client.env->moves_held = true;
  ASSERT_TRUE(network.RunUntil([&] { return network.CountSent(Attribute::kRep) == 1; }));
  network.Run(2 * FakeNetwork::kFlightNs);
  client.manager->ReleaseQp(client.id);
  client.qps.pop_back();
  EXPECT_FALSE(client.Saw(RDMA_CM_EVENT_CONNECT_ERROR)) << "no handler runs inside the call";
  EXPECT_EQ(LastSent<Rej>().message_rejected, static_cast<uint8_t>(AboutMessage::kRep));
  client.env->moves_held = false;
  ExpectTheAnswerRefused();
}

TEST_F(ManagerTest, AQueuePairThatIsReleasedAfterAcceptIsNotConnected) {
  server.Listen();
  server.on_event = [this](const Event& event) {
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    server.id = event.id;
    server.Bind(server.id);
    server.on_bound = [this] {
      server.env->moves_held = true;
      server.accept_status = server.Accept();
    };
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return server.env->moves_held; }));
  ASSERT_TRUE(server.accept_status.ok());
  server.manager->ReleaseQp(server.id);
  server.qps.pop_back();
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_CONNECT_ERROR)) << "no handler runs inside the call";
  EXPECT_EQ(server.manager->pending(), 0u);
  server.env->moves_held = false;
  ASSERT_TRUE(network.RunUntil([&] {
    return server.Saw(RDMA_CM_EVENT_CONNECT_ERROR) && client.Saw(RDMA_CM_EVENT_REJECTED);
  }));
  EXPECT_EQ(server.Last().status, -EINVAL);
  EXPECT_EQ(client.Last().status, static_cast<int>(RejectReason::kNoResources));
  EXPECT_EQ(network.CountSent(Attribute::kRep), 0);
  client.manager->DestroyId(client.id);
  server.manager->DestroyId(server.id);
  ExpectNothingLeft();
}

// The peer may have taken the REP for the end of it, or not have it yet.
TEST_F(ManagerTest, AQueuePairThatIsReleasedAfterTheRepIsNotConnected) {
  for (const Attribute lost : {Attribute::kRep, Attribute::kRtu, Attribute::kRej}) {
    SCOPED_TRACE(static_cast<int>(lost));
    FakeNetwork own;
    Host a{&own, 2};
    Host b{&own, 1};
    own.copies_of = [lost](const Datagram& datagram) {
      const Attribute attribute = ParseMadHeader(datagram.mad)->attribute;
      return attribute == lost || attribute == Attribute::kRtu ? 0 : 1;
    };
    b.Listen();
    b.AcceptAll();
    a.Prepare(b.address);
    ASSERT_TRUE(a.Connect().ok());
    ASSERT_TRUE(own.RunUntil([&] { return own.CountSent(Attribute::kRep) == 1; }));
    own.Run(4 * FakeNetwork::kFlightNs);
    EXPECT_EQ(a.Saw(RDMA_CM_EVENT_ESTABLISHED), lost != Attribute::kRep);
    b.manager->ReleaseQp(b.id);
    b.qps.clear();
    EXPECT_FALSE(b.Saw(RDMA_CM_EVENT_CONNECT_ERROR)) << "no handler runs inside the call";
    own.Run(kSecond);
    EXPECT_TRUE(b.Saw(RDMA_CM_EVENT_CONNECT_ERROR));
    EXPECT_EQ(b.Last().type, RDMA_CM_EVENT_TIMEWAIT_EXIT) << "nor DISCONNECTED";
    EXPECT_FALSE(b.Saw(RDMA_CM_EVENT_ESTABLISHED));
    EXPECT_TRUE(
        a.Saw(lost == Attribute::kRep ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_DISCONNECTED));
    a.manager->DestroyId(a.id);
    b.manager->DestroyId(b.id);
    own.Run(2000 * kSecond);
    EXPECT_EQ(a.manager->size(), 0u);
    EXPECT_EQ(b.manager->size(), 1u);
  }
}

// Who asks for the end, having heard of the failure, waits for DISCONNECTED.
TEST_F(ManagerTest, AConnectionWhoseQueuePairWasReleasedIsDisconnected) {
  for (const bool answered : {false, true}) {
    SCOPED_TRACE(answered);
    FakeNetwork own;
    Host a{&own, 2};
    Host b{&own, 1};
    own.copies_of = [](const Datagram& datagram) {
      return ParseMadHeader(datagram.mad)->attribute == Attribute::kRtu ? 0 : 1;
    };
    b.Listen();
    b.AcceptAll();
    a.Prepare(b.address);
    ASSERT_TRUE(a.Connect().ok());
    ASSERT_TRUE(own.RunUntil([&] { return a.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
    b.manager->ReleaseQp(b.id);
    b.qps.clear();
    if (answered) {
      ASSERT_TRUE(own.RunUntil([&] { return a.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
      own.Run(4 * FakeNetwork::kFlightNs);
    }
    ASSERT_TRUE(b.manager->Disconnect(b.id).ok());
    ASSERT_TRUE(b.manager->Disconnect(b.id).ok());
    EXPECT_FALSE(b.Saw(RDMA_CM_EVENT_DISCONNECTED)) << "no handler runs inside the call";
    own.Run(kSecond);
    EXPECT_EQ(std::ranges::count(b.events, RDMA_CM_EVENT_DISCONNECTED, &Seen::type), 1);
    a.manager->DestroyId(a.id);
    b.manager->DestroyId(b.id);
    own.Run(2000 * kSecond);
    EXPECT_EQ(a.manager->size(), 0u);
    EXPECT_EQ(b.manager->size(), 1u);
  }
}

// The peer goes on with the number that it was told.
TEST_F(ManagerTest, AConnectionWhoseQueuePairWasReplacedCanBeDisconnected) {
  for (const bool client_replaces : {true, false}) {
    SCOPED_TRACE(client_replaces);
    Establish();
    Host& replaces = client_replaces ? client : server;
    Host& ends = client_replaces ? server : client;
    replaces.on_bound = nullptr;
    replaces.manager->ReleaseQp(replaces.id);
    replaces.Bind(replaces.id);
    ASSERT_TRUE(network.RunUntil([&] { return replaces.bound; }));
    ASSERT_TRUE(ends.manager->Disconnect(ends.id).ok());
    network.Run(kSecond / 100);
    EXPECT_TRUE(replaces.Saw(RDMA_CM_EVENT_DISCONNECTED));
    EXPECT_TRUE(ends.Saw(RDMA_CM_EVENT_DISCONNECTED));
    EXPECT_EQ(replaces.drop(MadDrop::kWrongQpn), 0u);
    client.manager->DestroyId(client.id);
    server.manager->DestroyId(server.id);
    server.manager->DestroyId(server.listener);
    server.events.clear();
  }
}

TEST_F(ManagerTest, HandlersMayDestroyTheirIdentifier) {
  for (const rdma_cm_event_type type :
       {RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED,
        RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ADDR_RESOLVED,
        RDMA_CM_EVENT_ROUTE_RESOLVED}) {
    FakeNetwork own;
    Host a{&own, 2};
    Host b{&own, 1};
    b.Listen();
    const auto destroy = [&](Host& host) {
      return [&host, &b, type](const Event& event) {
        if (event.type == type) {
          host.manager->DestroyId(event.id);
        } else if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
          b.id = event.id;
          b.Bind(event.id);
          b.on_bound = [&b] { EXPECT_TRUE(b.Accept().ok()); };
        } else if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
          EXPECT_TRUE(host.manager->Disconnect(event.id).ok());
        } else if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
          EXPECT_TRUE(host.manager->ResolveRoute(event.id, 1).ok());
        } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
          host.Bind(event.id);
          host.on_bound = [&host] { EXPECT_TRUE(host.Connect().ok()); };
        }
      };
    };
    a.on_event = destroy(a);
    b.on_event = destroy(b);
    a.id = *a.manager->CreateId(RDMA_PS_TCP, a.Handler());
    ASSERT_TRUE(a.manager->ResolveAddr(a.id, {b.address, kPort}, 100).ok());
    own.Run(1000 * kSecond);
    EXPECT_TRUE(a.Saw(type) || b.Saw(type) || type == RDMA_CM_EVENT_REJECTED) << type;
  }
}

// Either side gives up at every point of a connection's life; the other is told, and nothing stays.
TEST_F(ManagerTest, IdentifiersCanBeDestroyedAtEveryPoint) {
  for (const bool client_side : {true, false}) {
    for (int steps = 0; steps < 40; ++steps) {
      FakeNetwork own(static_cast<uint64_t>(steps) + 1);
      Host a{&own, 2};
      Host b{&own, 1};
      b.Listen();
      b.AcceptAll();
      a.Prepare(b.address);
      ASSERT_TRUE(a.Connect().ok());
      a.on_event = [&](const Event& event) {
        if (event.type == RDMA_CM_EVENT_ESTABLISHED && steps >= 20) {
          EXPECT_TRUE(a.manager->Disconnect(a.id).ok());
        }
      };
      int polls = 0;
      const int stop_after = steps % 20;
      own.RunUntil([&] { return polls++ >= stop_after; }, kSecond / 100);
      Host& quitter = client_side ? a : b;
      Host& other = client_side ? b : a;
      if (quitter.id != nullptr) {
        const bool established = quitter.Saw(RDMA_CM_EVENT_ESTABLISHED);
        quitter.on_event = nullptr;
        quitter.on_bound = nullptr;
        quitter.manager->DestroyId(quitter.id);
        quitter.qps.clear();  // not touched any more
        const size_t events = quitter.events.size();
        own.Run(2000 * kSecond);
        // A server asked again for a request whose first copy was destroyed may be told so.
        if (client_side) {
          EXPECT_EQ(quitter.events.size(), events);
        }
        if (established) {
          EXPECT_TRUE(other.Saw(RDMA_CM_EVENT_DISCONNECTED)) << steps;
        }
        if (!client_side) continue;
        if (other.id != nullptr) {
          const rdma_cm_event_type last = other.Last().type;
          EXPECT_TRUE(last == RDMA_CM_EVENT_REJECTED || last == RDMA_CM_EVENT_TIMEWAIT_EXIT ||
                      last == RDMA_CM_EVENT_UNREACHABLE)
              << steps << " " << last;
          other.manager->DestroyId(other.id);
        }
        own.Run(2000 * kSecond);
        EXPECT_EQ(a.manager->size(), 0u) << steps;
        EXPECT_EQ(b.manager->size(), 1u) << steps;
      }
    }
  }
}

TEST_F(ManagerTest, DestroyBeforeTheRtuDisconnectsTheClient) {
  network.copies_of = [](const Datagram& datagram) {
    const Attribute attribute = ParseMadHeader(datagram.mad)->attribute;
    return attribute == Attribute::kRtu || attribute == Attribute::kRej ? 0 : 1;
  };
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  server.manager->DestroyId(server.id);
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_DISCONNECTED); }, kSecond));
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, TheQueuePairOfADestroyedIdentifierIsNotModified) {
  client.Prepare(server.address);
  client.env->moves_held = true;
  client.Bind(client.id);
  client.manager->DestroyId(client.id);
  client.env->moves_held = false;
  network.Run(kSecond);
  EXPECT_FALSE(client.bound);
  EXPECT_EQ(client.qp().attr.qp_state, IBV_QPS_RESET);

  // The same on the way to RTS.
  Start();
  client.env->moves_held = true;
  ASSERT_TRUE(network.RunUntil([&] { return network.CountSent(Attribute::kRep) == 1; }));
  network.Run(kSecond / 100);
  client.manager->DestroyId(client.id);
  client.env->moves_held = false;
  network.Run(kSecond / 100);
  EXPECT_EQ(client.qp().attr.qp_state, IBV_QPS_INIT);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_REJECTED));
}

TEST_F(ManagerTest, AThousandConnectionsLeakNothing) {
  server.Listen();
  server.AcceptAll();
  for (int i = 0; i < 1000; ++i) {
    client.events.clear();
    server.events.clear();
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); })) << i;
    Host& first = i % 2 == 0 ? client : server;
    ASSERT_TRUE(first.manager->Disconnect(first.id).ok());
    ASSERT_TRUE(network.RunUntil([&] {
      return client.Saw(RDMA_CM_EVENT_DISCONNECTED) && server.Saw(RDMA_CM_EVENT_DISCONNECTED);
    }));
    client.manager->DestroyId(client.id);
    server.manager->DestroyId(server.id);
  }
  ExpectNothingLeft();
}

// Loss, duplication and reordering (through retries) of any message: both sides always come to an
// end that they agree on.
TEST_F(ManagerTest, DisconnectCompletesUnderHeavyLoss) {
  int established = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    FakeNetwork own(seed);
    Host a{&own, 2};
    Host b{&own, 1};
    b.Listen();
    b.AcceptAll();
    own.copies_of = [&](const Datagram&) {
      return own.random.Chance(0.4) ? 0 : own.random.Chance(0.2) ? 2 : 1;
    };
    a.Prepare(b.address);
    ASSERT_TRUE(a.Connect().ok());
    own.RunUntil([&] {
      return a.Saw(RDMA_CM_EVENT_UNREACHABLE) || a.Saw(RDMA_CM_EVENT_REJECTED) ||
             (a.Saw(RDMA_CM_EVENT_ESTABLISHED) && b.Saw(RDMA_CM_EVENT_ESTABLISHED));
    });
    if (a.Saw(RDMA_CM_EVENT_ESTABLISHED)) {
      ++established;
      ASSERT_TRUE(b.Saw(RDMA_CM_EVENT_ESTABLISHED)) << seed;
      Host& first = seed % 2 == 0 ? a : b;
      ASSERT_TRUE(first.manager->Disconnect(first.id).ok()) << seed;
      ASSERT_TRUE(own.RunUntil([&] {
        return a.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && b.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT);
      })) << seed;
    }
    a.manager->DestroyId(a.id);
    if (b.id != nullptr) b.manager->DestroyId(b.id);
    own.Run(2000 * kSecond);
    EXPECT_EQ(a.manager->size(), 0u) << seed;
    EXPECT_EQ(b.manager->size(), 1u) << seed;
  }
  EXPECT_GT(established, 290);
}

}  // namespace
}  // namespace pollux::cm
