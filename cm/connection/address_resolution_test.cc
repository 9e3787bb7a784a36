// Local addresses, ports and port spaces of identifiers, and which listener is asked.
#include <gtest/gtest.h>

#include <vector>

#include "cm/connection/manager_fixture.h"
#include "cm/wire/service_id.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {
namespace {

class AddressTest : public ManagerTest {
 protected:
  AddressTest() {
    global_.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    server.env->addresses = {server.address, second_, global_};
  }
  Id* New(rdma_port_space port_space = RDMA_PS_TCP) {
    return *server.manager->CreateId(port_space, server.Handler());
  }
  absl::StatusCode Bind(const SocketAddress& local) {
    return server.manager->BindAddr(New(), local).code();
  }

  Gid second_ = Gid::FromIpv4(0xC0000215);
  Gid global_;
};

TEST_F(AddressTest, BindRefusesTakenAndForeignAddresses) {
  EXPECT_EQ(Bind({server.address, kPort}), absl::StatusCode::kOk);
  EXPECT_EQ(Bind({server.address, kPort}), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Bind({Gid{}, kPort}), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Bind({second_, kPort}), absl::StatusCode::kOk);
  EXPECT_EQ(Bind({client.address, kPort}), absl::StatusCode::kNotFound);
  Id* id = New();
  EXPECT_TRUE(server.manager->BindAddr(id, {}).ok());
  EXPECT_GE(id->local().port, 49152);
  EXPECT_FALSE(server.manager->BindAddr(id, {Gid{}, 5}).ok());  // once
  EXPECT_EQ(server.manager->Listen(id, 5, 0).code(), absl::StatusCode::kInvalidArgument);
  const uint16_t port = id->local().port;
  EXPECT_TRUE(server.manager->Listen(id, 0, 0).ok());
  EXPECT_EQ(server.manager->Listen(id, 0, 0).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(id->local().port, port);
  server.manager->DestroyId(id);
  EXPECT_EQ(Bind({Gid{}, port}), absl::StatusCode::kOk);
}

TEST_F(AddressTest, TheNextDestinationAfterAFailedOneGetsItsOwnSource) {
  Id* id = New();
  server.env->resolvable = false;
  ASSERT_TRUE(server.manager->ResolveAddr(id, {client.address, kPort}, 100).ok());
  EXPECT_EQ(id->local().address, server.address);
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_ADDR_ERROR); }));
  EXPECT_EQ(id->local().address, Gid{});
  Gid destination = global_;
  destination.raw.back() = 2;
  ASSERT_TRUE(server.manager->ResolveAddr(id, {destination, kPort}, 100).ok());
  EXPECT_EQ(id->local().address, global_);
}

TEST_F(AddressTest, AnAddressIsSharedWithReuseaddrUntilOneListens) {
  Id *first = New(), *second = New();
  for (Id* id : {first, second}) {
    ASSERT_TRUE(server.manager->SetReuseAddress(id, true).ok());
    ASSERT_TRUE(server.manager->BindAddr(id, {server.address, kPort}).ok());
    EXPECT_EQ(server.manager->SetReuseAddress(id, false).code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Bind({server.address, kPort}), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(server.manager->Listen(first, kPort).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(server.manager->ResolveAddr(second, {client.address, kPort}, 1000).ok());
  EXPECT_EQ(server.manager->Listen(first, kPort).code(), absl::StatusCode::kAlreadyExists);
  server.manager->DestroyId(second);
  ASSERT_TRUE(server.manager->Listen(first, kPort).ok());
  EXPECT_EQ(server.manager->SetReuseAddress(first, true).code(),
            absl::StatusCode::kFailedPrecondition);
  Id* third = New();
  ASSERT_TRUE(server.manager->SetReuseAddress(third, true).ok());
  ASSERT_TRUE(server.manager->SetReuseAddress(third, false).ok());
  ASSERT_TRUE(server.manager->SetReuseAddress(third, true).ok());
  EXPECT_EQ(server.manager->BindAddr(third, {server.address, kPort}).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(AddressTest, Ipv6OnlyCanBeChangedUntilListen) {
  Id* id = New();
  ASSERT_TRUE(server.manager->SetIpv6Only(id, true).ok());
  EXPECT_FALSE(server.manager->BindAddr(id, {client.address, kPort}).ok());
  ASSERT_TRUE(server.manager->SetIpv6Only(id, false).ok());
  ASSERT_TRUE(server.manager->BindAddr(id, {Gid{}, kPort}).ok());
  EXPECT_EQ(Bind({server.address, kPort}), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(server.manager->SetIpv6Only(id, true).ok());
  EXPECT_EQ(Bind({server.address, kPort}), absl::StatusCode::kOk);
  EXPECT_EQ(server.manager->SetIpv6Only(id, false).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Bind({second_, kPort}), absl::StatusCode::kOk) << "it is as it was";
  EXPECT_EQ(Bind({global_, kPort}), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(server.manager->Listen(id, kPort).ok());
  EXPECT_EQ(server.manager->SetIpv6Only(id, true).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(AddressTest, APortCanBeUsedInEveryPortSpace) {
  for (const rdma_port_space port_space : {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB}) {
    EXPECT_TRUE(server.manager->Listen(New(port_space), kPort).ok());
    EXPECT_FALSE(server.manager->Listen(New(port_space), kPort).ok());
  }
}

TEST_F(AddressTest, RequestsFindTheListenerOfTheirPortSpace) {
  server.port_space = RDMA_PS_TCP;
  server.Listen();
  client.port_space = RDMA_PS_IB;
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  EXPECT_EQ(LastSent<Req>().service_id, (ServiceId{RDMA_PS_IB, kPort}.ToWire()));
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 8);
  server.port_space = RDMA_PS_IB;
  server.Listen();
  server.AcceptAll();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  EXPECT_EQ(server.id->port_space(), RDMA_PS_IB);
  // A REQ does not reach a listener for UD.
  Id* udp = New(RDMA_PS_UDP);
  ASSERT_TRUE(server.manager->Listen(udp, 7).ok());
  Req req = LastSent<Req>();
  req.local_comm_id ^= 1;
  req.local_qpn ^= 0x800;
  req.service_id = ServiceId{RDMA_PS_UDP, 7}.ToWire();
  Inject(server, client.address, req);
  EXPECT_EQ(LastSent<Rej>().reason, 8);
}

TEST_F(AddressTest, AListenerOfTheExactAddressIsPreferredToAWildcard) {
  Id* second = New();
  ASSERT_TRUE(server.manager->BindAddr(second, {second_, kPort}).ok());
  ASSERT_TRUE(server.manager->Listen(second, kPort).ok());
  Id* asked = nullptr;
  server.on_event = [&](const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) asked = event.listen_id;
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 8);
  client.Prepare(second_);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return asked != nullptr; }));
  EXPECT_EQ(asked, second);
}

// What came to one of several addresses is answered from it, and the queue pair sends from it.
TEST_F(AddressTest, ConnectionsUseTheAddressTheRequestWasSentTo) {
  server.Listen();
  server.AcceptAll();
  EXPECT_EQ(server.listener->local().address, Gid{});
  client.Prepare(second_);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  EXPECT_EQ(server.id->local().address, second_);
  EXPECT_EQ(server.qp().attr.ah_attr.grh.sgid_index, 1);
  for (const Datagram& datagram : network.log) {
    EXPECT_TRUE(datagram.from == second_ || datagram.to == second_);
  }
}

TEST_F(AddressTest, TypeOfServiceOfTheRequestIsUsedByBothSides) {
  server.Listen();
  server.AcceptAll();
  client.Prepare(server.address);
  ASSERT_TRUE(client.manager->SetTypeOfService(client.id, 0x68).ok());
  ASSERT_TRUE(client.Connect().ok());
  EXPECT_FALSE(client.manager->SetTypeOfService(client.id, 0).ok());
  EXPECT_EQ(LastSent<Req>().primary.traffic_class, 0x68);
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  EXPECT_EQ(client.qp().attr.ah_attr.grh.traffic_class, 0x68);
  EXPECT_EQ(server.qp().attr.ah_attr.grh.traffic_class, 0x68);
  EXPECT_EQ(client.manager->QueryPath(*client.id).traffic_class, 0x68);
  EXPECT_EQ(server.manager->QueryPath(*server.id).traffic_class, 0x68);
}

TEST_F(AddressTest, SourceAddressMatchesTheAddressFamilyOfThePeer) {
  client.id = *client.manager->CreateId(RDMA_PS_TCP, client.Handler());
  EXPECT_EQ(client.manager->ResolveAddr(client.id, {global_, kPort}, 100).code(),
            absl::StatusCode::kNotFound);
  Gid own = global_;
  own.raw[15] = 2;
  client.env->addresses.push_back(own);
  ASSERT_TRUE(client.manager->ResolveAddr(client.id, {global_, kPort}, 100).ok());
  EXPECT_EQ(client.id->local().address, own);
  Id* bound = *client.manager->CreateId(RDMA_PS_TCP, client.Handler());
  ASSERT_TRUE(client.manager->BindAddr(bound, {client.address, 0}).ok());
  EXPECT_FALSE(client.manager->ResolveAddr(bound, {global_, kPort}, 100).ok());
  EXPECT_TRUE(client.manager->ResolveAddr(bound, {second_, kPort}, 100).ok());
}

TEST_F(AddressTest, EachListenerHasItsOwnBacklog) {
  Id* small = New();
  ASSERT_TRUE(server.manager->Listen(small, kPort, 2).ok());
  Id* other = New();
  ASSERT_TRUE(server.manager->Listen(other, kPort + 1, 1).ok());
  std::vector<Id*> asked;
  server.on_event = [&](const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) asked.push_back(event.id);
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  Req req = LastSent<Req>();
  const auto knock = [&](uint16_t port) {
    ++req.local_comm_id;
    ++req.local_qpn;
    req.service_id = ServiceId{RDMA_PS_TCP, port}.ToWire();
    Inject(server, client.address, req);
  };
  for (int i = 0; i < 3; ++i) knock(kPort);
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(server.drop(MadDrop::kBacklogFull), 1u);
  for (int i = 0; i < 3; ++i) knock(kPort + 1);
  EXPECT_EQ(asked.size(), 3u);
  server.manager->DestroyId(asked[0]);
  knock(kPort);
  EXPECT_EQ(asked.size(), 4u);
  // What a listener leaves behind does not count for the next at its port.
  server.manager->DestroyId(small);
  small = New();
  ASSERT_TRUE(server.manager->Listen(small, kPort, 2).ok());
  server.manager->DestroyId(asked[1]);
  knock(kPort);
  knock(kPort);
  knock(kPort);
  EXPECT_EQ(asked.size(), 6u);
}

TEST_F(AddressTest, RequestsTakenByTheUserLeaveTheBacklog) {
  Id* listener = New();
  ASSERT_TRUE(server.manager->Listen(listener, kPort, 1).ok());
  std::vector<Id*> asked;
  server.on_event = [&](const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) asked.push_back(event.id);
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  Req req = LastSent<Req>();
  const auto knock = [&] {
    ++req.local_comm_id;
    ++req.local_qpn;
    Inject(server, client.address, req);
  };
  for (size_t i = 1; i <= 3; ++i) {
    knock();
    knock();
    ASSERT_EQ(asked.size(), i);
    EXPECT_EQ(server.drop(MadDrop::kBacklogFull), i);
    server.manager->LeaveBacklog(asked.back());
  }
  // What has left makes no room a second time.
  server.manager->LeaveBacklog(asked[0]);
  ASSERT_TRUE(server.manager->Reject(asked[0], {}).ok());
  server.manager->DestroyId(asked[1]);
  knock();
  knock();
  EXPECT_EQ(asked.size(), 4u);
  server.manager->DestroyId(listener);
  server.manager->LeaveBacklog(asked[3]);
}

// Or a peer that asks and gives up, over and over, would fill a slow user's hands.
TEST_F(AddressTest, RequestsAbandonedByTheirPeersStayInTheBacklogUntilDestroyed) {
  Id* listener = New();
  ASSERT_TRUE(server.manager->Listen(listener, kPort, 2).ok());
  std::vector<Id*> asked;
  server.on_event = [&](const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) asked.push_back(event.id);
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  Req req = LastSent<Req>();
  const auto knock = [&] {
    ++req.local_comm_id;
    Inject(server, client.address, req);
  };
  const auto give_up = [&] {
    Rej rej;
    rej.local_comm_id = req.local_comm_id;
    rej.reason = static_cast<uint16_t>(RejectReason::kTimeout);
    rej.reject_info_length = sizeof req.local_ca_guid;
    StoreBe64(rej.ari.data(), req.local_ca_guid);
    Inject(server, client.address, rej);
  };
  ++req.local_qpn;
  knock();
  give_up();
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_REJECTED));
  knock();
  // Of the same queue pair: the request before is stale.
  for (int i = 0; i < 3; ++i) knock();
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(server.manager->pending(), 2u);
  EXPECT_EQ(server.drop(MadDrop::kBacklogFull), 3u);
  for (const size_t i : {0, 1}) {
    server.manager->DestroyId(asked[i]);
    EXPECT_EQ(server.manager->pending(), 1u);
    knock();
    EXPECT_EQ(asked.size(), i + 3);
  }
}

TEST_F(AddressTest, TypeOfServiceCanBeSetBeforeAndDuringAddressResolution) {
  Id* id = *client.manager->CreateId(RDMA_PS_TCP, client.Handler());
  EXPECT_TRUE(client.manager->SetTypeOfService(id, 0x10).ok());
  ASSERT_TRUE(client.manager->ResolveAddr(id, {server.address, kPort}, 1000).ok());
  EXPECT_TRUE(client.manager->SetTypeOfService(id, 0x20).ok());
}

}  // namespace
}  // namespace pollux::cm
