// How connections begin: REQ, REP, RTU, REJ, what both sides agree on, what is lost or comes twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "cm/connection/manager_fixture.h"
#include "cm/connection/timeouts.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/service_id.h"

namespace pollux::cm {
namespace {

// Linux sets its queue pair to what the REP says, which may be more than its device has.
TEST_F(ManagerTest, ARepOffersNoMoreResourcesThanTheReqAsksFor) {
  client.param.initiator_depth = 4;
  server.param.responder_resources = 128;
  Establish();
  EXPECT_EQ(LastSent<Rep>().responder_resources, 4);
  EXPECT_EQ(client.Last().param.initiator_depth, 4);
  EXPECT_EQ(server.qp().attr.max_dest_rd_atomic, 128);
}

TEST_F(ManagerTest, ConnectNegotiatesParametersAndCarriesPrivateData) {
  client.param = {
      .responder_resources = 200, .initiator_depth = 9, .retry_count = 9, .rnr_retry_count = 3};
  server.param = {.responder_resources = 7, .initiator_depth = 40, .rnr_retry_count = 5};
  server.env->mtu = IBV_MTU_1024;
  Establish();

  // CONNECT_REQUEST bears the client's data and its offer, swapped.
  ASSERT_EQ(server.events.size(), 2u);
  const Seen& request = server.events[0];
  EXPECT_EQ(request.type, RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_EQ(request.private_data.size(), 56u);
  EXPECT_EQ(request.private_data[2], 3);
  EXPECT_EQ(request.param.responder_resources, 9);
  EXPECT_EQ(request.param.initiator_depth, 128);  // what a queue pair can do
  EXPECT_EQ(request.param.retry_count, 7);
  const Seen& told = server.events[1];
  EXPECT_EQ(told.private_data.size(), 0u) << "as rdma_cm, whatever the RTU bears";
  EXPECT_EQ(told.param.responder_resources, 0);
  EXPECT_EQ(told.param.initiator_depth, 0);
  EXPECT_EQ(told.param.retry_count, 0);
  EXPECT_EQ(told.param.rnr_retry_count, 0);
  EXPECT_EQ(told.param.qp_num, 0u);
  EXPECT_EQ(client.Last().private_data.size(), 196u);
  EXPECT_EQ(client.Last().private_data[3], 7);
  EXPECT_EQ(client.Last().param.initiator_depth, 7);
  EXPECT_EQ(client.Last().param.responder_resources, 40);
  EXPECT_EQ(client.Last().param.rnr_retry_count, 5);
  EXPECT_EQ(client.Last().param.retry_count, 0) << "a REP says nothing of it";

  EXPECT_EQ(server.id->peer().address, client.address);
  EXPECT_EQ(server.id->peer(), client.id->local());
  EXPECT_EQ(server.id->local(), client.id->peer());

  const ibv_qp_attr& a = client.qp().attr;
  const ibv_qp_attr& b = server.qp().attr;
  EXPECT_EQ(a.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(b.qp_state, IBV_QPS_RTS);
  // Each side sends from where the other expects it.
  EXPECT_EQ(a.sq_psn, b.rq_psn);
  EXPECT_EQ(b.sq_psn, a.rq_psn);
  EXPECT_NE(a.sq_psn, a.rq_psn);
  EXPECT_EQ(LastSent<Req>().starting_psn, b.sq_psn);
  EXPECT_EQ(LastSent<Rep>().starting_psn, a.sq_psn);
  EXPECT_EQ(a.dest_qp_num, server.qp().qpn().value);
  EXPECT_EQ(b.dest_qp_num, client.qp().qpn().value);
  EXPECT_EQ(client.manager->QueryPath(*client.id).mtu, IBV_MTU_1024);
  EXPECT_EQ(server.manager->QueryPath(*server.id).mtu, IBV_MTU_1024);
  EXPECT_EQ(a.path_mtu, IBV_MTU_1024);  // what both can carry
  EXPECT_EQ(b.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(a.max_rd_atomic, 7);
  EXPECT_EQ(b.max_dest_rd_atomic, 7);
  EXPECT_EQ(b.max_rd_atomic, 40);
  EXPECT_EQ(a.max_dest_rd_atomic, 128);
  EXPECT_EQ(a.retry_cnt, 7);
  EXPECT_EQ(b.retry_cnt, 7);
  EXPECT_EQ(a.rnr_retry, 5);  // what the peer asks
  EXPECT_EQ(b.rnr_retry, 3);
  EXPECT_EQ(a.timeout, 17);  // lifetime 16 and one; the delay of 15 is more than a step below
  EXPECT_EQ(b.timeout, 17);
  EXPECT_EQ(a.min_rnr_timer, 12);
  EXPECT_EQ(a.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_TRUE(std::ranges::equal(a.ah_attr.grh.dgid.raw, server.address.raw));
}

TEST_F(ManagerTest, StartingPsnsAreDrawnAtRandom) {
  constexpr size_t kConnections = 16;
  server.Listen();
  server.AcceptAll();
  std::set<uint32_t> psns;
  uint32_t bits = 0;  // that are set in any of them
  for (size_t i = 0; i < kConnections; ++i) {
    server.events.clear();
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); })) << i;
    for (const uint32_t psn : {LastSent<Req>().starting_psn, LastSent<Rep>().starting_psn}) {
      psns.insert(psn);
      bits |= psn;
    }
  }
  EXPECT_GE(psns.size(), 2 * kConnections - 2);  // two may be the same by chance
  EXPECT_EQ(bits, Psn::kMask);
}

TEST_F(ManagerTest, ThePassiveSideAdoptsASmallerMtuInTheRequest) {
  client.env->mtu = IBV_MTU_512;
  Establish();
  EXPECT_EQ(network.CountSent(Attribute::kReq), 1);
  EXPECT_EQ(client.qp().attr.path_mtu, IBV_MTU_512);
  EXPECT_EQ(server.qp().attr.path_mtu, IBV_MTU_512);
  EXPECT_EQ(server.manager->QueryPath(*server.id).mtu, IBV_MTU_512) << "of a port with 4096";
}

TEST_F(ManagerTest, AnMtuAboveThePeersIsRetriedWithTheSmallerOne) {
  server.env->mtu = IBV_MTU_1024;
  // Also when the first REQ comes twice, and so is rejected twice.
  network.copies_of = [](const Datagram& datagram) {
    const std::optional<Mad> mad = ParseMad(datagram.mad);
    const Req* req = std::get_if<Req>(&mad->message);
    return req != nullptr && req->path_mtu == IBV_MTU_4096 ? 2 : 1;
  };
  Establish();
  EXPECT_EQ(network.CountSent(Attribute::kReq), 2);
  EXPECT_EQ(network.CountSent(Attribute::kRej), 2);
  const Rej rej = LastSent<Rej>();
  EXPECT_EQ(rej.reason, 26);
  EXPECT_EQ(rej.message_rejected, 0);
  EXPECT_EQ(rej.reject_info_length, 1);
  EXPECT_EQ(rej.ari[0], IBV_MTU_1024);
  EXPECT_EQ(LastSent<Req>().path_mtu, IBV_MTU_1024);
  EXPECT_EQ(server.events[0].private_data[2], 3);
  EXPECT_EQ(client.qp().attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(server.qp().attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(client.manager->counters().of(Attribute::kRej).duplicates, 1u);
}

TEST_F(ManagerTest, InvalidMtuRejectionsEndTheAttempt) {
  struct Case {
    uint8_t info_length;
    uint8_t largest;
  };
  // Nothing named, nonsense, not lower, and lower but for the second time.
  for (const Case& c : {Case{0, 1}, {1, 0}, {1, 5}, {1, 15}, {1, 2}}) {
    SCOPED_TRACE(testing::Message() << +c.info_length << ' ' << +c.largest);
    client.Prepare(server.address);
    network.copies_of = [](const Datagram&) { return 0; };
    ASSERT_TRUE(client.Connect().ok());
    const auto reject = [&] {
      Rej rej;
      rej.remote_comm_id = LastSent<Req>().local_comm_id;
      rej.reason = 26;
      rej.reject_info_length = c.info_length;
      rej.ari[0] = c.largest;
      MadBuffer mad;
      EmitMad({.transaction_id = ParseMadHeader(network.log.back().mad)->transaction_id}, rej, mad);
      client.env->Receive(server.address, mad);
    };
    reject();
    if (c.info_length == 1 && c.largest == 2) {
      EXPECT_EQ(LastSent<Req>().path_mtu, 2);
      EXPECT_FALSE(client.Saw(RDMA_CM_EVENT_REJECTED));
      reject();
    }
    ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
    EXPECT_EQ(client.Last().status, 26);
    client.manager->DestroyId(client.id);
  }
  ExpectNothingLeft();
}

TEST_F(ManagerTest, RequestHasTheFieldsThatLinuxSends) {
  Establish();
  const Req req = LastSent<Req>();
  EXPECT_EQ(req.service_id, (ServiceId{RDMA_PS_TCP, kPort}.ToWire()));
  EXPECT_EQ(req.primary.local_lid, 0xFFFF);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.pkey, 0xFFFF);
  const std::optional<CmaHeader> cma = CmaHeader::Parse(req.private_data);
  ASSERT_TRUE(cma.has_value());
  EXPECT_EQ(cma->source, client.address);
  EXPECT_EQ(cma->destination, server.address);
  // One transaction from REQ to RTU.
  EXPECT_EQ(ParseMadHeader(network.log[0].mad)->transaction_id,
            ParseMadHeader(network.log[2].mad)->transaction_id);
}

TEST_F(ManagerTest, QueuePairReachesRtsBeforeTheReplyIsSent) {
  server.env->moves_held = true;
  Start();
  server.on_event = nullptr;
  network.Run(kSecond / 100);
  EXPECT_EQ(network.CountSent(Attribute::kRep), 0);
  server.env->moves_held = false;
  server.AcceptAll();
  network.copies_of = [&](const Datagram& datagram) {
    if (ParseMadHeader(datagram.mad)->attribute == Attribute::kRep) {
      EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_RTS);
    }
    return 1;
  };
  // The first request was given to a handler that did nothing.
  client.manager->DestroyId(client.id);
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  EXPECT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
}

TEST_F(ManagerTest, PrivateDataAboveTheReplyLimitIsRefused) {
  server.Listen();
  server.on_event = [&](const Event& event) {
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    server.id = event.id;
    server.Bind(event.id);
  };
  server.on_bound = [&] {
    ConnectionParam param = server.param;
    const std::vector<uint8_t> too_much(Rep::kPrivateBytes + 1);
    param.private_data = too_much;
    EXPECT_EQ(server.manager->Accept(server.id, param).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(server.Accept().ok());
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  EXPECT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
}

TEST_F(ManagerTest, ConsumerRejectCarriesPrivateData) {
  server.Listen();
  server.on_event = [&](const Event& event) {
    const std::vector<uint8_t> too_much(Rej::kPrivateBytes + 1);
    EXPECT_EQ(server.manager->Reject(event.id, too_much).code(),
              absl::StatusCode::kInvalidArgument);
    const std::vector<uint8_t> why = {9, 8, 7};
    EXPECT_TRUE(server.manager->Reject(event.id, why).ok());
    EXPECT_FALSE(server.manager->Reject(event.id, why).ok());
    server.manager->DestroyId(event.id);
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 28);
  ASSERT_EQ(client.Last().private_data.size(), 148u);
  EXPECT_EQ(client.Last().private_data[1], 8);
  EXPECT_EQ(client.Last().param.responder_resources, 0);
  EXPECT_EQ(client.Last().param.initiator_depth, 0);
  EXPECT_EQ(client.Last().param.rnr_retry_count, 0);
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, WithoutAListenerTheRequestIsRejected) {
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 8);
  EXPECT_EQ(LastSent<Rej>().remote_comm_id, LastSent<Req>().local_comm_id);
  EXPECT_FALSE(client.Connect().ok());  // once
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, GivesUpAfterFifteenRetries) {
  network.copies_of = [](const Datagram&) { return 0; };
  const uint64_t start_ns = network.now_ns;
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  EXPECT_EQ(client.Last().status, -ETIMEDOUT);
  EXPECT_EQ(network.CountSent(Attribute::kReq), 16);
  EXPECT_EQ(client.manager->counters().of(Attribute::kReq).retries, 15u);
  const uint64_t interval_ns = 2 * TimeoutNs(16) + TimeoutNs(20);
  EXPECT_GE(network.now_ns - start_ns, 16 * interval_ns);
  EXPECT_LE(network.now_ns - start_ns, 16 * interval_ns + kSecond / 10);
  EXPECT_EQ(LastSent<Rej>().reason, 4);
  EXPECT_EQ(LastSent<Rej>().reject_info_length, 8) << "its CA GUID";
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, PassiveSideGivesUpWithoutRtu) {
  network.copies_of = [&](const Datagram& datagram) {
    return ParseMadHeader(datagram.mad)->attribute == Attribute::kRep ? 0 : 1;
  };
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  ASSERT_TRUE(network.RunUntil(
      [&] { return server.Saw(RDMA_CM_EVENT_REJECTED) || server.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  network.Run(kSecond / 100);
  EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_ERR);
}

TEST_F(ManagerTest, PassiveSideGivesUpOnASilentClient) {
  Start();
  network.copies_of = [&](const Datagram& datagram) {
    return ParseMadHeader(datagram.mad)->attribute == Attribute::kReq ? 1 : 0;
  };
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  EXPECT_EQ(server.manager->counters().of(Attribute::kRep).retries, 15u);
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT));  // the queue pair may have been sent to
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT); }));
  EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_ERR);
}

TEST_F(ManagerTest, ARepeatedRequestIsAnsweredWithTheSameReply) {
  Lose(Attribute::kRep, 1);
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return network.CountSent(Attribute::kRep) == 1; }));
  const uint64_t start_ns = network.now_ns;
  Inject(server, client.address, LastSent<Req>());
  EXPECT_EQ(network.CountSent(Attribute::kRep), 2);
  ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  EXPECT_LT(network.now_ns - start_ns, kSecond);  // no time-out was waited for
}

TEST_F(ManagerTest, ALostReplyIsResent) {
  Lose(Attribute::kRep, 2);
  Establish();
  EXPECT_EQ(server.events.size(), 2u);
  EXPECT_GE(server.manager->counters().of(Attribute::kRep).sent, 3u);
}

TEST_F(ManagerTest, ALostRequestIsResent) {
  Lose(Attribute::kReq, 3);
  Establish();
  EXPECT_EQ(client.manager->counters().of(Attribute::kReq).retries, 3u);
}

TEST_F(ManagerTest, LostRtuIsRepeated) {
  Lose(Attribute::kRtu, 2);
  Establish();
  EXPECT_EQ(client.manager->counters().of(Attribute::kRep).duplicates, 2u);
  EXPECT_EQ(
      std::ranges::count_if(
          client.events, [](const Seen& seen) { return seen.type == RDMA_CM_EVENT_ESTABLISHED; }),
      1);
}

TEST_F(ManagerTest, TheFirstPacketEstablishesWithoutAnRtu) {
  Lose(Attribute::kRtu, 100);
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_ESTABLISHED));
  server.manager->Notify(server.id, IBV_EVENT_COMM_EST);
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_ESTABLISHED));  // not from inside the call
  const uint64_t start_ns = network.now_ns;
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_EQ(network.now_ns, start_ns);
  server.manager->Notify(server.id, IBV_EVENT_COMM_EST);
  network.Run(100 * kSecond);
  EXPECT_EQ(server.events.size(), 2u);
}

TEST_F(ManagerTest, TheClientSetsTheAckTimeoutOfBothSides) {
  client.param.ack_timeout = 14;
  Establish();
  EXPECT_EQ(client.qp().attr.timeout, 14);
  EXPECT_EQ(server.qp().attr.timeout, 14);  // as the client asks
  EXPECT_EQ(AckTimeoutCode(18, 15), 19);    // as Linux in the captures
  EXPECT_EQ(AckTimeoutCode(14, 15), 16);
  EXPECT_EQ(AckTimeoutCode(15, 15), 17);
  EXPECT_EQ(AckTimeoutCode(10, 15), 15);
  EXPECT_EQ(AckTimeoutCode(30, 31), 31);
}

TEST_F(ManagerTest, ZeroAckTimeoutIsReplacedByADefault) {
  Establish();
  Req req = LastSent<Req>();
  req.local_comm_id ^= 1;
  req.local_qpn ^= 0x800;
  req.primary.ack_timeout = 0;
  Inject(server, client.address, req);
  ASSERT_TRUE(network.RunUntil([&] { return server.qps.size() == 2; }));
  ASSERT_TRUE(network.RunUntil([&] { return server.qp().attr.qp_state == IBV_QPS_RTS; }));
  EXPECT_EQ(server.qp().attr.timeout, 17);
}

TEST_F(ManagerTest, MraExtendsTheTimeout) {
  server.Listen();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  const uint64_t start_ns = network.now_ns;
  Mra mra;
  mra.local_comm_id = 77;
  mra.remote_comm_id = LastSent<Req>().local_comm_id;
  mra.service_timeout = 24;
  Inject(client, server.address, mra);
  ASSERT_TRUE(network.RunUntil([&] { return network.CountSent(Attribute::kReq) == 2; }));
  EXPECT_GE(network.now_ns - start_ns, TimeoutNs(24));
  mra.message_mraed = 1;  // of a REP there was none
  Inject(client, server.address, mra);
  EXPECT_EQ(client.drop(MadDrop::kWrongState), 1u);
}

TEST_F(ManagerTest, AnUnresolvableAddressGivesAddrError) {
  client.id = *client.manager->CreateId(RDMA_PS_TCP, client.Handler());
  EXPECT_FALSE(client.manager->ResolveAddr(client.id, {Gid{}, kPort}, 100).ok());
  client.env->resolvable = false;
  EXPECT_TRUE(client.manager->ResolveAddr(client.id, {server.address, kPort}, 100).ok());
  EXPECT_FALSE(client.manager->ResolveAddr(client.id, {server.address, kPort}, 100).ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ADDR_ERROR); }));
  EXPECT_EQ(client.Last().status, -ETIMEDOUT);
  EXPECT_EQ(client.manager->CreateId(RDMA_PS_IPOIB, client.Handler()).status().code(),
            absl::StatusCode::kUnimplemented);
}

// Of a process that has had no CPU for longer than it waits.
TEST_F(ManagerTest, AResolutionFoundAtTheTimeoutSucceeds) {
  client.id = *client.manager->CreateId(RDMA_PS_TCP, client.Handler());
  client.env->resolvable = false;
  ASSERT_TRUE(client.manager->ResolveAddr(client.id, {server.address, kPort}, 100).ok());
  network.Run(1'000'000);
  ASSERT_TRUE(client.events.empty());
  client.env->resolvable = true;
  network.now_ns += 200'000'000;
  ASSERT_TRUE(network.RunUntil([&] { return !client.events.empty(); }));
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(client.events.size(), 1u);
}

TEST_F(ManagerTest, CallsOutOfOrderAreRefused) {
  client.id = *client.manager->CreateId(RDMA_PS_TCP, client.Handler());
  EXPECT_FALSE(client.Connect().ok());
  EXPECT_FALSE(client.Accept().ok());
  EXPECT_FALSE(client.manager->Disconnect(client.id).ok());
  EXPECT_FALSE(client.manager->ResolveRoute(client.id, 1).ok());
  client.manager->DestroyId(client.id);
  client.Prepare(server.address);
  EXPECT_EQ(client.Connect(std::vector<uint8_t>(57)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client.Connect(std::vector<uint8_t>(56)).ok());
  server.Listen();
  Id* second = *server.manager->CreateId(RDMA_PS_TCP, server.Handler());
  EXPECT_EQ(server.manager->Listen(second, kPort).code(), absl::StatusCode::kAlreadyExists);
  server.manager->DestroyId(server.listener);
  EXPECT_TRUE(server.manager->Listen(second, kPort).ok());
}

TEST_F(ManagerTest, AFailedQueuePairTransitionRejectsTheRequest) {
  server.Listen();
  server.AcceptAll();
  client.Prepare(server.address);
  server.on_bound = [&] {
    server.env->moves_fail = true;
    EXPECT_TRUE(server.Accept().ok());
  };
  server.on_event = [&](const Event& event) {
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    server.id = event.id;
    server.Bind(event.id);
  };
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 3);
  EXPECT_EQ(server.Last().type, RDMA_CM_EVENT_CONNECT_ERROR);

  server.env->moves_fail = false;
  server.AcceptAll();
  Host third{&network, 3};
  third.Prepare(server.address);
  ASSERT_TRUE(third.Connect().ok());
  third.env->moves_fail = true;
  ASSERT_TRUE(network.RunUntil([&] { return third.Saw(RDMA_CM_EVENT_CONNECT_ERROR); }));
  ASSERT_TRUE(network.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_REJECTED); }));
}

TEST_F(ManagerTest, AFullSendQueueDelaysTheRequest) {
  client.env->queue_full = true;
  Start();
  network.Run(kSecond);
  EXPECT_EQ(client.drop(MadDrop::kSendQueueFull), 1u);
  EXPECT_EQ(client.manager->counters().of(Attribute::kReq).sent, 0u);
  client.env->queue_full = false;
  EXPECT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
}

}  // namespace
}  // namespace pollux::cm
