// Several managers at one address: each message finds the one that it is for.
#include "cm/connection/handover.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

constexpr uint8_t kServerNumber = 1;

class HandoverTest : public testing::Test {
 protected:
  void MakeServers(uint32_t count, const ManagerConfig& config = {}) {
    for (uint32_t index = 0; index < count; ++index) {
      servers.push_back(
          std::make_unique<Host>(&network, kServerNumber, config, Shard{index, count}));
    }
  }
  void Serve(uint32_t index, Placement placement = Placement::kByConnection) {
    servers[index]->Listen(placement);
    servers[index]->AcceptAll();
  }
  void ServeAll(Placement placement = Placement::kByConnection) {
    for (uint32_t index = 0; index < servers.size(); ++index) Serve(index, placement);
  }
  // From another of its queue pairs each time. Nothing is delivered yet.
  void Ask(Host& from) {
    for (auto& server : servers) server->events.clear();
    from.Prepare(servers[0]->address);
    ASSERT_TRUE(from.Connect().ok());
  }
  void Ask() { Ask(client); }
  bool WaitFor(rdma_cm_event_type type) {
    return network.RunUntil([&] { return client.Saw(type); });
  }
  // The managers that have been told of it since Ask().
  std::vector<uint32_t> Told(rdma_cm_event_type type) const {
    std::vector<uint32_t> told;
    for (uint32_t index = 0; index < servers.size(); ++index) {
      for (const Seen& seen : servers[index]->events) {
        if (seen.type == type) told.push_back(index);
      }
    }
    return told;
  }
  bool IsEstablished(const Host& host) const {
    return host.Saw(RDMA_CM_EVENT_ESTABLISHED) && !Told(RDMA_CM_EVENT_ESTABLISHED).empty();
  }
  // Whose connection it has become.
  uint32_t Connect(Host& from) {
    Ask(from);
    EXPECT_TRUE(network.RunUntil([&] { return IsEstablished(from); }));
    const std::vector<uint32_t> told = Told(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(told.size(), 1u);
    EXPECT_EQ(Told(RDMA_CM_EVENT_ESTABLISHED), told);
    return told.empty() ? UINT32_MAX : told[0];
  }
  uint32_t Connect() { return Connect(client); }
  uint32_t OwnerOfNextQp() const {
    const uint32_t next = client.qps.empty() ? kFirstQpn : client.qps.back()->qp.qpn().value + 1;
    Req req;
    req.local_qpn = next;
    MadBuffer mad;
    EmitMad({}, req, mad);
    return GsiOwner(mad, client.address, static_cast<uint32_t>(servers.size()));
  }
  uint64_t Dropped(MadDrop reason) const {
    return std::accumulate(
        servers.begin(), servers.end(), uint64_t{0},
        [&](uint64_t sum, const auto& server) { return sum + server->drop(reason); });
  }

  static constexpr uint32_t kFirstQpn = 0x2000;  // of the client, as its fixture counts
  FakeNetwork network;
  Host client{&network, 2};
  std::vector<std::unique_ptr<Host>> servers;
};

TEST_F(HandoverTest, ConnectionsSpreadEvenly) {
  MakeServers(3);
  ServeAll();
  std::vector<int> connections(3);
  for (int i = 0; i < 6; ++i) ++connections[Connect()];
  EXPECT_EQ(connections, (std::vector{2, 2, 2}));
  for (const auto& server : servers) {
    Stats stats;
    ASSERT_TRUE(server->manager->OnStatsQuery({.topic = "worker"}, &stats));
    EXPECT_EQ(stats.fields(), (std::vector<Stats::Field>{{"connections", uint64_t{2}}}));
  }
}

TEST_F(HandoverTest, ADisconnectReachesTheManagerOfItsConnection) {
  MakeServers(3);
  ServeAll();
  for (int i = 0; i < 3; ++i) {
    const uint32_t index = Connect();
    ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
    ASSERT_TRUE(WaitFor(RDMA_CM_EVENT_DISCONNECTED));
    EXPECT_EQ(Told(RDMA_CM_EVENT_DISCONNECTED), std::vector{index});
  }
  for (int i = 0; i < 3; ++i) {
    const uint32_t index = Connect();
    ASSERT_TRUE(servers[index]->manager->Disconnect(servers[index]->id).ok());
    ASSERT_TRUE(network.RunUntil([&] { return !Told(RDMA_CM_EVENT_DISCONNECTED).empty(); }));
    EXPECT_TRUE(client.Saw(RDMA_CM_EVENT_DISCONNECTED));
  }
  EXPECT_EQ(Dropped(MadDrop::kUnknownCommId), 0u);
}

// From each of its managers: the answers come back to it.
TEST_F(HandoverTest, EachManagerCanConnect) {
  MakeServers(3);
  Host other{&network, 9};
  other.Listen();
  other.AcceptAll();
  for (const auto& from : servers) {
    from->Prepare(other.address);
    ASSERT_TRUE(from->Connect().ok());
    ASSERT_TRUE(network.RunUntil([&] { return from->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
    ASSERT_TRUE(from->manager->Disconnect(from->id).ok());
    ASSERT_TRUE(network.RunUntil([&] { return from->Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  }
  EXPECT_EQ(network.CountSent(Attribute::kReq), 3);
  EXPECT_EQ(network.CountSent(Attribute::kDreq), 3);
}

// An application names the core by where it listens.
TEST_F(HandoverTest, RequestsReachTheOnlyManagerThatListens) {
  MakeServers(3);
  Serve(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Connect(), 1u);
  EXPECT_EQ(network.CountSent(Attribute::kRej), 0);
}

TEST_F(HandoverTest, RepeatedRequestsReachTheSameManager) {
  MakeServers(3);
  Serve(2);
  for (int i = 0; i < 3; ++i) {
    int replies = 0;
    network.copies_of = [&](const Datagram& datagram) {
      const bool reply = ParseMadHeader(datagram.mad)->attribute == Attribute::kRep;
      return reply && replies++ == 0 ? 0 : 1;
    };
    EXPECT_EQ(Connect(), 2u);
    EXPECT_GE(replies, 2);
  }
  EXPECT_EQ(servers[2]->manager->size(), 4u);  // with the listener
}

// All have been asked, and one answers.
TEST_F(HandoverTest, WithoutAListenerOneRejectionIsSent) {
  MakeServers(3);
  for (int i = 1; i <= 3; ++i) {
    Ask();
    ASSERT_TRUE(WaitFor(RDMA_CM_EVENT_REJECTED));
    EXPECT_EQ(client.Last().status, static_cast<int>(RejectReason::kInvalidServiceId));
    EXPECT_EQ(network.CountSent(Attribute::kRej), i);
  }
}

TEST_F(HandoverTest, SidrRequestsReachTheOnlyManagerThatServes) {
  MakeServers(3);
  client.port_space = RDMA_PS_UDP;
  Ask();
  ASSERT_TRUE(WaitFor(RDMA_CM_EVENT_UNREACHABLE));
  EXPECT_EQ(client.Last().status, static_cast<int>(SidrStatus::kUnsupported));
  EXPECT_EQ(network.CountSent(Attribute::kSidrRep), 1);
  servers[1]->port_space = RDMA_PS_UDP;
  Serve(1);
  for (int i = 0; i < 3; ++i) {
    Ask();
    ASSERT_TRUE(WaitFor(RDMA_CM_EVENT_ESTABLISHED));
    EXPECT_EQ(Told(RDMA_CM_EVENT_CONNECT_REQUEST), std::vector{1u});
  }
}

TEST_F(HandoverTest, PlacementByClientKeepsAClientOnOneManager) {
  MakeServers(3);
  ServeAll(Placement::kByClient);
  const uint32_t home = Shard{0, 3}.HomeOf(client.address);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(Connect(), home);
  Host neighbour{&network, 3};
  EXPECT_EQ(Connect(neighbour), (home + 1) % 3);
  // With another that listens when its own does no more, from wherever its requests come in.
  servers[home]->manager->DestroyId(servers[home]->listener);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Connect(), (home + 1) % 3);
  const uint32_t next = (home + 1) % 3;
  servers[next]->manager->DestroyId(servers[next]->listener);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Connect(), (home + 2) % 3);
}

// It gives up before it has heard of the ID of the other side.
TEST_F(HandoverTest, ARejectionWithoutARemoteIdReachesItsConnection) {
  MakeServers(3);
  for (uint32_t index = 0; index < 3; ++index) servers[index]->Listen();
  for (int i = 0; i < 3; ++i) {
    Ask();
    ASSERT_TRUE(network.RunUntil([&] { return !Told(RDMA_CM_EVENT_CONNECT_REQUEST).empty(); }));
    client.manager->DestroyId(client.id);
    ASSERT_TRUE(network.RunUntil([&] { return !Told(RDMA_CM_EVENT_REJECTED).empty(); }));
    EXPECT_EQ(Told(RDMA_CM_EVENT_REJECTED), Told(RDMA_CM_EVENT_CONNECT_REQUEST));
  }
  EXPECT_EQ(Dropped(MadDrop::kUnknownCommId), 0u);
  // One of a connection that nobody has is dropped once, by the last.
  Rej rej;
  rej.local_comm_id = 5;
  rej.reason = static_cast<uint16_t>(RejectReason::kTimeout);
  rej.reject_info_length = 8;
  MadBuffer mad;
  EmitMad({}, rej, mad);
  servers[1]->env->Receive(client.address, mad);
  network.Run(kSecond);
  EXPECT_EQ(Dropped(MadDrop::kUnknownCommId), 1u);
  EXPECT_EQ(servers[0]->drop(MadDrop::kUnknownCommId), 1u);
}

// A client was killed; what comes to its queue pair's place is connected elsewhere.
TEST_F(HandoverTest, AStaleConnectionOfAnotherManagerIsEnded) {
  MakeServers(2);
  const uint32_t owner = OwnerOfNextQp();
  const uint32_t other = 1 - owner;
  Serve(other);
  ASSERT_EQ(Connect(), other);
  client.manager.reset();
  Serve(owner);
  Host again{&network, 2};
  EXPECT_EQ(Connect(again), owner);
  EXPECT_EQ(again.qp().qpn(), client.qp().qpn());
  ASSERT_TRUE(
      network.RunUntil([&] { return !Told(RDMA_CM_EVENT_DISCONNECTED).empty(); }, kSecond / 100));
  EXPECT_EQ(Told(RDMA_CM_EVENT_DISCONNECTED), std::vector{other});
  EXPECT_EQ(servers[other]->qps[0]->qp.attr.qp_state, IBV_QPS_ERR);
  network.Run(kSecond);
  EXPECT_FALSE(again.Saw(RDMA_CM_EVENT_DISCONNECTED));
}

// The news comes late: what is newer than it stays.
TEST_F(HandoverTest, NewerConnectionsAreNotStale) {
  MakeServers(2);
  Serve(0);
  ASSERT_EQ(Connect(), 0u);
  servers[0]->manager->OnPeerQpTaken({.peer = client.address,
                                      .ca_guid = client.env->ca_guid(),
                                      .qpn = client.qp().qpn().value,
                                      .at_ns = 1});
  network.Run(kSecond);
  EXPECT_TRUE(Told(RDMA_CM_EVENT_DISCONNECTED).empty());
}

TEST_F(HandoverTest, ARequestIsRepeatedWhenTheHandoverQueueIsFull) {
  MakeServers(2);
  const uint32_t owner = OwnerOfNextQp();
  Serve(1 - owner);
  servers[owner]->env->posts_full = true;
  Ask();
  ASSERT_TRUE(network.RunUntil([&] { return servers[owner]->drop(MadDrop::kHandoverFull) == 1; }));
  servers[owner]->env->posts_full = false;
  ASSERT_TRUE(network.RunUntil([&] { return IsEstablished(client); }));
  EXPECT_EQ(network.CountSent(Attribute::kReq), 2);
}

TEST_F(HandoverTest, EphemeralPortsOfManagersDiffer) {
  MakeServers(3);
  std::set<uint16_t> ports;
  for (const auto& host : servers) {
    for (int i = 0; i < 1000; ++i) {
      Id* const id = *host->manager->CreateId(RDMA_PS_TCP, host->Handler());
      ASSERT_TRUE(host->manager->BindAddr(id, {}).ok());
      EXPECT_GE(id->local().port, PortTable::kFirstEphemeral);
      EXPECT_TRUE(ports.insert(id->local().port).second);
    }
  }
}

}  // namespace
}  // namespace pollux::cm
