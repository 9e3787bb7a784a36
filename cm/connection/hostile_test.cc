// Peers that forget, strangers that interfere, requests that cannot be met, meaningless bytes.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "cm/connection/manager_fixture.h"
#include "stack/base/random.h"

namespace pollux::cm {
namespace {

TEST_F(ManagerTest, AReusedQueuePairNumberIsAStaleConnection) {
  Establish();
  Req again = LastSent<Req>();
  again.local_comm_id ^= 1;  // same CA, same queue pair, another connection
  server.on_event = nullptr;
  Inject(server, client.address, again);
  EXPECT_EQ(LastSent<Rej>().reason, 10);
  EXPECT_EQ(LastSent<Dreq>().remote_qpn, client.qp().qpn().value);
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
}

// Nor does it keep the peer out, should it come first.
TEST_F(ManagerTest, TheSameNumbersFromAnotherAddressAreAnotherPeer) {
  Establish();
  const Gid stranger = Gid::FromIpv4(0xC0000209);
  Req same = LastSent<Req>();
  same.primary.local_gid = stranger;
  server.on_event = nullptr;
  Inject(server, stranger, same);
  EXPECT_EQ(server.Last().type, RDMA_CM_EVENT_CONNECT_REQUEST);
  network.Run(kSecond);
  EXPECT_EQ(network.CountSent(Attribute::kDreq), 0);
  EXPECT_EQ(network.CountSent(Attribute::kRej), 0);
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(ManagerTest, RefusedRequestsDoNotEndTheConnection) {
  Establish();
  Req again = LastSent<Req>();
  again.local_comm_id ^= 1;
  Req other_port = again, other_path = again;
  other_port.service_id ^= 1;
  other_path.primary.local_gid = Gid::FromIpv4(0xC0000209);
  Inject(server, client.address, other_port);
  EXPECT_EQ(LastSent<Rej>().reason, 8);
  Inject(server, client.address, other_path);
  EXPECT_EQ(LastSent<Rej>().reason, 12);
  network.Run(kSecond);
  EXPECT_EQ(network.CountSent(Attribute::kDreq), 0);
}

TEST_F(ManagerTest, RequestInTimeWaitIsStale) {
  Establish();
  const Req req = LastSent<Req>();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  Inject(server, client.address, req);
  EXPECT_EQ(LastSent<Rej>().reason, 10);
  EXPECT_EQ(server.events.size(), 3u);
}

TEST_F(ManagerTest, ACommunicationIdInUseIsRefused) {
  Establish();
  Req req = LastSent<Req>();
  req.local_qpn ^= 0x800;
  Inject(server, client.address, req);
  EXPECT_EQ(LastSent<Rej>().reason, 30);
  EXPECT_EQ(server.events.size(), 2u);
}

TEST_F(ManagerTest, UnknownDisconnectIsAnswered) {
  Dreq dreq;
  dreq.local_comm_id = 5;
  dreq.remote_comm_id = 6;
  Inject(server, client.address, dreq);
  EXPECT_EQ(LastSent<Drep>().local_comm_id, 6u);
  EXPECT_EQ(LastSent<Drep>().remote_comm_id, 5u);
}

TEST_F(ManagerTest, UnknownReplyIsRejected) {
  Rep rep;
  rep.local_comm_id = 5;
  rep.remote_comm_id = 6;
  Inject(client, server.address, rep);
  EXPECT_EQ(LastSent<Rej>().reason, 6);
  EXPECT_EQ(LastSent<Rej>().message_rejected, 1);
}

TEST_F(ManagerTest, MessagesFromOtherPeersAreDropped) {
  Establish();
  const Rtu rtu = LastSent<Rtu>();
  Dreq dreq;
  dreq.local_comm_id = rtu.local_comm_id;
  dreq.remote_comm_id = rtu.remote_comm_id;
  dreq.remote_qpn = server.qp().qpn().value;
  Inject(server, Gid::FromIpv4(0xC0000209), dreq);  // another address
  EXPECT_EQ(server.drop(MadDrop::kWrongPeer), 1u);
  ++dreq.local_comm_id;  // another connection of the peer's
  Inject(server, client.address, dreq);
  EXPECT_EQ(server.drop(MadDrop::kWrongPeer), 2u);
  --dreq.local_comm_id;
  ++dreq.remote_qpn;
  Inject(server, client.address, dreq);
  EXPECT_EQ(server.drop(MadDrop::kWrongQpn), 1u);
  EXPECT_EQ(network.CountSent(Attribute::kDrep), 0);
  Rej rej;
  rej.remote_comm_id = rtu.remote_comm_id;
  Inject(server, client.address, rej);  // without the peer's own ID
  EXPECT_EQ(server.drop(MadDrop::kWrongPeer), 3u);
  EXPECT_EQ(server.events.size(), 2u);
  --dreq.remote_qpn;
  Inject(server, client.address, dreq);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_DISCONNECTED));
}

TEST_F(ManagerTest, UnsupportedRequestsGetTheirRejectReason) {
  server.Listen();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  Req good = LastSent<Req>();
  const auto reason = [&](auto change) {
    Req req = good;
    change(req);
    Inject(server, client.address, req);
    return LastSent<Rej>().reason;
  };
  EXPECT_EQ(reason([](Req& r) { r.transport_type = 1; }), 9);
  EXPECT_EQ(reason([](Req& r) { r.service_id += 1; }), 8);
  EXPECT_EQ(reason([](Req& r) { r.local_comm_id = 0; }), 6);
  EXPECT_EQ(reason([](Req& r) { r.primary.local_gid = Gid::FromIpv4(1); }), 12);
  EXPECT_EQ(reason([](Req& r) { r.primary.remote_gid = Gid::FromIpv4(1); }), 12);
  EXPECT_EQ(reason([](Req& r) { r.path_mtu = 0; }), 26);
  EXPECT_EQ(reason([](Req& r) { r.path_mtu = 6; }), 26);
  EXPECT_EQ(reason([](Req& r) { r.private_data[1] = 0; }), 5);
  EXPECT_EQ(reason([](Req& r) { r.local_qpn = 0; }), 5);
  EXPECT_EQ(reason([](Req& r) { r.local_qpn = 1; }), 5);
  EXPECT_EQ(reason([](Req& r) { r.local_qpn = 0xFFFFFF; }), 5);
  EXPECT_EQ(reason([](Req& r) { r.pkey = 0x8001; }), 5);
  EXPECT_TRUE(server.events.empty());
}

TEST_F(ManagerTest, UnsupportedMessagesAreAnsweredOrCounted) {
  SidrReq sidr;
  sidr.request_id = 3;
  Inject(server, client.address, sidr);
  EXPECT_EQ(LastSent<SidrRep>().status, 1);
  EXPECT_EQ(LastSent<SidrRep>().request_id, 3u);
  Lap lap;
  Inject(server, client.address, lap);
  EXPECT_EQ(server.drop(MadDrop::kUnknownCommId), 1u);
  EXPECT_EQ(LastSent<Apr>().ap_status, 1);
  Inject(server, client.address, Apr{});
  Inject(server, client.address, SidrRep{});
  EXPECT_EQ(server.drop(MadDrop::kWrongState), 1u);
  EXPECT_EQ(server.drop(MadDrop::kUnknownCommId), 2u);
  Establish();
  lap.local_comm_id = LastSent<Rtu>().local_comm_id;
  lap.remote_comm_id = LastSent<Rtu>().remote_comm_id;
  Inject(server, client.address, lap);
  EXPECT_EQ(LastSent<Apr>().ap_status, 2);
}

TEST_F(ManagerTest, BacklogIsBounded) {
  Host small{&network, 5, {.max_ids = 4, .max_pending_requests = 2}};
  small.Listen();
  std::vector<Id*> asked;
  small.on_event = [&](const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) asked.push_back(event.id);
  };
  client.Prepare(small.address);
  ASSERT_TRUE(client.Connect().ok());
  Req req = LastSent<Req>();
  const auto knock = [&] {
    ++req.local_comm_id;
    ++req.local_qpn;
    Inject(small, client.address, req);
  };
  for (int i = 0; i < 5; ++i) knock();
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(small.drop(MadDrop::kBacklogFull), 3u);
  // Rejecting makes room among the pending; identifiers stay until destroyed.
  ASSERT_TRUE(small.manager->Reject(asked[0], {}).ok());
  knock();
  EXPECT_EQ(asked.size(), 3u);
  ASSERT_TRUE(small.manager->Reject(asked[1], {}).ok());
  knock();
  EXPECT_EQ(asked.size(), 3u);
  EXPECT_EQ(LastSent<Rej>().reason, 3);
  EXPECT_EQ(small.manager->CreateId(RDMA_PS_TCP, small.Handler()).status().code(),
            absl::StatusCode::kResourceExhausted);
  small.manager->DestroyId(asked[0]);
  knock();
  EXPECT_EQ(asked.size(), 4u);
}

TEST_F(ManagerTest, TruncatedAndRandomMadsAreHarmless) {
  Establish();
  std::vector<MadBuffer> real;
  for (const Datagram& datagram : network.log) real.push_back(datagram.mad);
  for (const MadBuffer& mad : real) {
    for (size_t length = 0; length < kMadBytes; ++length) {
      server.env->Receive(client.address, std::span(mad).first(length));
    }
  }
  EXPECT_EQ(server.drop(MadDrop::kBadLength), kMadBytes * real.size());
  MadBuffer other_class = real[0];
  other_class[1] = 1;
  server.env->Receive(client.address, other_class);
  EXPECT_EQ(server.drop(MadDrop::kBadHeader), 1u);
  MadBuffer other_attribute = real[0];
  other_attribute[17] = 0x40;
  server.env->Receive(client.address, other_attribute);
  EXPECT_EQ(server.drop(MadDrop::kUnknownAttribute), 1u);
  EXPECT_EQ(server.events.size(), 2u);

  // Hostile but well-formed: real messages with bytes changed, and noise under each attribute. The
  // manager refuses or believes; either way it lives, within its bounds.
  Random noise(7);
  for (int i = 0; i < 20000; ++i) {
    MadBuffer mad = real[noise.Below(real.size())];
    const uint64_t changes = noise.Below(8);
    for (uint64_t c = 0; c < changes; ++c) {
      mad[24 + noise.Below(kMadBodyBytes)] = static_cast<uint8_t>(noise.Next64());
    }
    if (noise.Chance(0.3)) {
      for (size_t at = 24; at < kMadBytes; ++at) mad[at] = static_cast<uint8_t>(noise.Next64());
    }
    mad[17] = static_cast<uint8_t>(0x10 + noise.Below(0x0B));
    Host& to = noise.Chance(0.5) ? client : server;
    Host& from = &to == &client ? server : client;
    to.env->Receive(from.address, mad);
    if (i % 100 == 0) network.Run(kSecond);
  }
  EXPECT_LE(server.manager->size(), ManagerConfig{}.max_ids);
}

}  // namespace
}  // namespace pollux::cm
