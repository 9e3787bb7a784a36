// The connection state machines, over a world of datagrams with virtual time.
#include "cm/manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cm/cma_header.h"
#include "cm/fake_world.h"
#include "cm/manager_impl.h"
#include "cm/service_id.h"
#include "cm/timeouts.h"

namespace pollux::cm {
namespace {

constexpr uint16_t kPort = 20049;
constexpr uint64_t kSecond = FakeWorld::kSecond;

struct Seen {
  rdma_cm_event_type type;
  int status;
  std::vector<uint8_t> private_data;
  ConnectionParam param;  // its span is gone
};

// One host: a manager, one identifier of interest, its queue pair, and what it was told.
class Host {
 public:
  Host(FakeWorld* world, uint8_t number, const ManagerConfig& config = {})
      : address(Gid::FromIpv4(0xC0000200 + number)), world_(world), qpn_(number * 0x1000u) {
    auto environment = std::make_unique<FakeEnvironment>(world, address);
    env = environment.get();
    manager = std::make_unique<ManagerImpl>(std::move(environment), config);
  }

  void Listen() {
    listener = *manager->CreateId(RDMA_PS_TCP, Handler());
    ASSERT_TRUE(manager->Listen(listener, kPort).ok());
  }
  // Creates an identifier and takes it to where it can connect.
  void Prepare(const Gid& to) {
    events.clear();
    id = *manager->CreateId(RDMA_PS_TCP, Handler());
    ASSERT_TRUE(manager->ResolveAddr(id, {to, kPort}, 1000).ok());
    ASSERT_TRUE(world_->RunUntil([&] { return Saw(RDMA_CM_EVENT_ADDR_RESOLVED); }));
    ASSERT_TRUE(manager->ResolveRoute(id, 1000).ok());
    ASSERT_TRUE(world_->RunUntil([&] { return Saw(RDMA_CM_EVENT_ROUTE_RESOLVED); }));
    Bind(id);
    ASSERT_TRUE(world_->RunUntil([&] { return bound; }));
  }
  void Bind(Id* to) {
    qps.push_back(std::make_unique<FakeQp>(qpn_++));
    bound = false;
    manager->BindQp(to, nullptr, &qps.back()->qp, IBV_ACCESS_REMOTE_READ, [this](absl::Status s) {
      bound = s.ok();
      bind_status = s;
      if (s.ok() && on_bound) on_bound();
    });
  }
  absl::Status Connect(std::vector<uint8_t> private_data = {1, 2, 3}) {
    ConnectionParam out = param;
    out.private_data = private_data;
    return manager->Connect(id, out);
  }
  absl::Status Accept() {
    ConnectionParam out = param;
    const std::vector<uint8_t> private_data = {4, 5, 6, 7};
    out.private_data = private_data;
    return manager->Accept(id, out);
  }
  // Answers CONNECT_REQUEST with an accept.
  void AcceptAll() {
    on_event = [this](const Event& event) {
      if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
      id = event.id;
      Bind(id);
      on_bound = [this] { accept_status = Accept(); };
    };
  }
  EventHandler Handler() {
    return [this](const Event& event) {
      const auto& data = event.param.private_data;
      events.push_back({event.type, event.status, {data.begin(), data.end()}, event.param});
      if (on_event) on_event(event);
    };
  }
  bool Saw(rdma_cm_event_type type) const {
    return std::ranges::any_of(events, [&](const Seen& seen) { return seen.type == type; });
  }
  Seen Last() const { return events.empty() ? Seen{} : events.back(); }
  verbs::QueuePair& qp() { return qps.back()->qp; }
  uint64_t drop(MadDrop reason) const { return manager->counters().drop(reason); }

  Gid address;
  FakeEnvironment* env;
  std::unique_ptr<ManagerImpl> manager;
  Id* listener = nullptr;
  Id* id = nullptr;
  std::vector<std::unique_ptr<FakeQp>> qps;
  std::vector<Seen> events;
  std::function<void(const Event&)> on_event;
  std::function<void()> on_bound;
  ConnectionParam param;
  bool bound = false;
  absl::Status bind_status;
  absl::Status accept_status;

 private:
  FakeWorld* world_;
  uint32_t qpn_;
};

class ManagerTest : public testing::Test {
 protected:
  // The client has asked; nothing is delivered yet.
  void Start() {
    server.Listen();
    server.AcceptAll();
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
  }
  bool BothEstablished() {
    return client.Last().type == RDMA_CM_EVENT_ESTABLISHED &&
           server.Last().type == RDMA_CM_EVENT_ESTABLISHED;
  }
  void Establish() {
    Start();
    ASSERT_TRUE(world.RunUntil([&] { return BothEstablished(); }));
  }
  // Drops the first `count` of `attribute`.
  void Lose(Attribute attribute, int count) {
    world.network = [attribute, count](const Datagram& datagram) mutable {
      if (ParseMadHeader(datagram.mad)->attribute != attribute || count == 0) return 1;
      --count;
      return 0;
    };
  }
  template <class T>
  T LastSent() {
    for (auto it = world.log.rbegin(); it != world.log.rend(); ++it) {
      const Mad mad = *ParseMad(it->mad);
      if (const T* message = std::get_if<T>(&mad.message)) return *message;
    }
    ADD_FAILURE() << "none sent";
    return {};
  }
  void Inject(Host& to, const Gid& from, const Message& message) {
    MadBuffer mad;
    EmitMad({}, message, mad);
    to.env->Receive(from, mad);
  }
  // Everything is over and given back.
  void ExpectNothingLeft() {
    world.Run(2000 * kSecond);
    EXPECT_EQ(client.manager->size(), 0u);
    EXPECT_EQ(server.manager->size(), server.listener != nullptr ? 1u : 0u);
  }

  FakeWorld world;
  Host client{&world, 2};
  Host server{&world, 1};
};

TEST_F(ManagerTest, ConnectsAndNegotiates) {
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
  EXPECT_EQ(client.Last().private_data.size(), 196u);
  EXPECT_EQ(client.Last().private_data[3], 7);
  EXPECT_EQ(client.Last().param.initiator_depth, 7);
  EXPECT_EQ(client.Last().param.responder_resources, 40);

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
  EXPECT_EQ(b.path_mtu, IBV_MTU_1024);  // the passive side lowers
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

TEST_F(ManagerTest, RequestLooksLikeLinuxs) {
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
  EXPECT_EQ(ParseMadHeader(world.log[0].mad)->transaction_id,
            ParseMadHeader(world.log[2].mad)->transaction_id);
}

TEST_F(ManagerTest, QueuePairReceivesBeforeTheReplyLeaves) {
  server.env->moves_held = true;
  Start();
  server.on_event = nullptr;
  world.Run(kSecond / 100);
  EXPECT_EQ(world.CountSent(Attribute::kRep), 0);
  server.env->moves_held = false;
  server.AcceptAll();
  world.network = [&](const Datagram& datagram) {
    if (ParseMadHeader(datagram.mad)->attribute == Attribute::kRep) {
      EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_RTS);
    }
    return 1;
  };
  // The first request was given to a handler that did nothing.
  client.manager->DestroyId(client.id);
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  EXPECT_TRUE(world.RunUntil([&] { return BothEstablished(); }));
}

TEST_F(ManagerTest, DisconnectsAndWaits) {
  Establish();
  const uint64_t start_ns = world.now_ns;
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(world.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_DISCONNECTED) && server.Saw(RDMA_CM_EVENT_DISCONNECTED);
  }));
  EXPECT_EQ(client.qp().attr.qp_state, IBV_QPS_ERR);
  world.RunUntil([&] { return server.qp().attr.qp_state == IBV_QPS_ERR; }, kSecond / 100);
  EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_ERR);
  ASSERT_TRUE(world.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }));
  EXPECT_GE(world.now_ns - start_ns, client.manager->time_wait_ns());
  EXPECT_EQ(client.manager->time_wait_ns(), TimeoutNs(17));
  client.manager->DestroyId(client.id);
  server.manager->DestroyId(server.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, ConsumerRejects) {
  server.Listen();
  server.on_event = [&](const Event& event) {
    const std::vector<uint8_t> why = {9, 8, 7};
    EXPECT_TRUE(server.manager->Reject(event.id, why).ok());
    EXPECT_FALSE(server.manager->Reject(event.id, why).ok());
    server.manager->DestroyId(event.id);
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 28);
  ASSERT_EQ(client.Last().private_data.size(), 148u);
  EXPECT_EQ(client.Last().private_data[1], 8);
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, NoListener) {
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 8);
  EXPECT_EQ(LastSent<Rej>().remote_comm_id, LastSent<Req>().local_comm_id);
  EXPECT_FALSE(client.Connect().ok());  // once
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, GivesUpAfterFifteenRetries) {
  world.network = [](const Datagram&) { return 0; };
  const uint64_t start_ns = world.now_ns;
  Start();
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  EXPECT_EQ(client.Last().status, -ETIMEDOUT);
  EXPECT_EQ(world.CountSent(Attribute::kReq), 16);
  EXPECT_EQ(client.manager->counters().of(Attribute::kReq).retries, 15u);
  const uint64_t interval_ns = 2 * TimeoutNs(16) + TimeoutNs(20);
  EXPECT_GE(world.now_ns - start_ns, 16 * interval_ns);
  EXPECT_LE(world.now_ns - start_ns, 16 * interval_ns + kSecond / 10);
  EXPECT_EQ(LastSent<Rej>().reason, 4);
  client.manager->DestroyId(client.id);
  ExpectNothingLeft();
}

TEST_F(ManagerTest, PassiveSideGivesUpWithoutRtu) {
  world.network = [&](const Datagram& datagram) {
    return ParseMadHeader(datagram.mad)->attribute == Attribute::kRep ? 0 : 1;
  };
  Start();
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  ASSERT_TRUE(world.RunUntil(
      [&] { return server.Saw(RDMA_CM_EVENT_REJECTED) || server.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  world.Run(kSecond / 100);
  EXPECT_EQ(server.qp().attr.qp_state, IBV_QPS_ERR);
}

TEST_F(ManagerTest, LostReply) {
  Lose(Attribute::kRep, 2);
  Establish();
  EXPECT_EQ(server.events.size(), 2u);
  EXPECT_GE(server.manager->counters().of(Attribute::kRep).sent, 3u);
}

TEST_F(ManagerTest, LostRequest) {
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

TEST_F(ManagerTest, FirstPacketEstablishes) {
  Lose(Attribute::kRtu, 100);
  Start();
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_ESTABLISHED));
  server.manager->Notify(server.id, IBV_EVENT_COMM_EST);
  EXPECT_FALSE(server.Saw(RDMA_CM_EVENT_ESTABLISHED));  // not from inside the call
  const uint64_t start_ns = world.now_ns;
  ASSERT_TRUE(world.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_EQ(world.now_ns, start_ns);
  server.manager->Notify(server.id, IBV_EVENT_COMM_EST);
  world.Run(100 * kSecond);
  EXPECT_EQ(server.events.size(), 2u);
}

TEST_F(ManagerTest, LostDisconnectMessages) {
  for (const Attribute attribute : {Attribute::kDreq, Attribute::kDrep}) {
    Host a{&world, 3};
    Host b{&world, 4};
    b.Listen();
    b.AcceptAll();
    a.Prepare(b.address);
    ASSERT_TRUE(a.Connect().ok());
    ASSERT_TRUE(world.RunUntil(
        [&] { return a.Saw(RDMA_CM_EVENT_ESTABLISHED) && b.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
    Lose(attribute, 2);
    ASSERT_TRUE(a.manager->Disconnect(a.id).ok());
    ASSERT_TRUE(world.RunUntil(
        [&] { return a.Saw(RDMA_CM_EVENT_DISCONNECTED) && b.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
    EXPECT_EQ(a.Last().status, 0);
    EXPECT_EQ(a.manager->counters().of(Attribute::kDreq).retries, 2u);
    // The DREQ that comes after time-wait is answered all the same.
  }
}

TEST_F(ManagerTest, SilentPeerAtDisconnect) {
  Establish();
  world.network = [](const Datagram&) { return 0; };
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  EXPECT_EQ(client.Last().status, -ETIMEDOUT);
  EXPECT_EQ(world.CountSent(Attribute::kDreq), 16);
}

TEST_F(ManagerTest, EveryMessageTwice) {
  world.network = [](const Datagram&) { return 2; };
  Establish();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(world.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }));
  EXPECT_EQ(server.events.size(), 4u);
  EXPECT_GE(server.manager->counters().of(Attribute::kReq).duplicates, 1u);
  EXPECT_GE(client.manager->counters().of(Attribute::kRep).duplicates, 1u);
  EXPECT_GE(server.manager->counters().of(Attribute::kRtu).duplicates, 1u);
  EXPECT_GE(server.manager->counters().of(Attribute::kDreq).duplicates, 1u);
  EXPECT_GE(client.manager->counters().of(Attribute::kDrep).duplicates, 1u);
}

TEST_F(ManagerTest, CrossingDisconnects) {
  Establish();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(server.manager->Disconnect(server.id).ok());
  ASSERT_TRUE(world.RunUntil([&] {
    return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT) && server.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }));
  for (const Host* host : {&client, &server}) {
    EXPECT_EQ(
        std::ranges::count_if(
            host->events, [](const Seen& seen) { return seen.type == RDMA_CM_EVENT_DISCONNECTED; }),
        1);
  }
}

TEST_F(ManagerTest, ForgetfulPeerIsStale) {
  Establish();
  Req again = LastSent<Req>();
  again.local_comm_id ^= 1;  // same CA, same queue pair, another connection
  server.on_event = nullptr;
  Inject(server, client.address, again);
  EXPECT_EQ(LastSent<Rej>().reason, 10);
  EXPECT_EQ(LastSent<Dreq>().remote_qpn, client.qp().qpn().value);
  ASSERT_TRUE(world.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
}

TEST_F(ManagerTest, RequestInTimeWaitIsStale) {
  Establish();
  const Req req = LastSent<Req>();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(world.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  Inject(server, client.address, req);
  EXPECT_EQ(LastSent<Rej>().reason, 10);
  EXPECT_EQ(server.events.size(), 3u);
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

TEST_F(ManagerTest, StrangersCannotInterfere) {
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
  EXPECT_EQ(world.CountSent(Attribute::kDrep), 0);
  Rej rej;
  rej.remote_comm_id = rtu.remote_comm_id;
  Inject(server, client.address, rej);  // without the peer's own ID
  EXPECT_EQ(server.drop(MadDrop::kWrongPeer), 3u);
  EXPECT_EQ(server.events.size(), 2u);
  --dreq.remote_qpn;
  Inject(server, client.address, dreq);
  EXPECT_TRUE(server.Saw(RDMA_CM_EVENT_DISCONNECTED));
}

TEST_F(ManagerTest, RequestsThatCannotBeMet) {
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
  EXPECT_TRUE(server.events.empty());
}

TEST_F(ManagerTest, AckTimeouts) {
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

TEST_F(ManagerTest, ZeroAckTimeoutDoesNotMeanForEver) {
  Establish();
  Req req = LastSent<Req>();
  req.local_comm_id ^= 1;
  req.local_qpn ^= 0x800;
  req.primary.ack_timeout = 0;
  Inject(server, client.address, req);
  ASSERT_TRUE(world.RunUntil([&] { return server.qps.size() == 2; }));
  ASSERT_TRUE(world.RunUntil([&] { return server.qp().attr.qp_state == IBV_QPS_RTS; }));
  EXPECT_EQ(server.qp().attr.timeout, 17);
}

TEST_F(ManagerTest, MraBuysTime) {
  server.Listen();
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  const uint64_t start_ns = world.now_ns;
  Mra mra;
  mra.local_comm_id = 77;
  mra.remote_comm_id = LastSent<Req>().local_comm_id;
  mra.service_timeout = 24;
  Inject(client, server.address, mra);
  ASSERT_TRUE(world.RunUntil([&] { return world.CountSent(Attribute::kReq) == 2; }));
  EXPECT_GE(world.now_ns - start_ns, TimeoutNs(24));
  mra.message_mraed = 1;  // of a REP there was none
  Inject(client, server.address, mra);
  EXPECT_EQ(client.drop(MadDrop::kWrongState), 1u);
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
  Inject(server, client.address, Apr{});
  Inject(server, client.address, SidrRep{});
  EXPECT_EQ(server.drop(MadDrop::kWrongState), 2u);
  Establish();
  lap.local_comm_id = LastSent<Rtu>().local_comm_id;
  lap.remote_comm_id = LastSent<Rtu>().remote_comm_id;
  Inject(server, client.address, lap);
  EXPECT_EQ(LastSent<Apr>().ap_status, 2);
}

TEST_F(ManagerTest, AddressErrors) {
  client.id = *client.manager->CreateId(RDMA_PS_TCP, client.Handler());
  EXPECT_FALSE(client.manager->ResolveAddr(client.id, {Gid{}, kPort}, 100).ok());
  client.env->resolvable = false;
  EXPECT_TRUE(client.manager->ResolveAddr(client.id, {server.address, kPort}, 100).ok());
  EXPECT_FALSE(client.manager->ResolveAddr(client.id, {server.address, kPort}, 100).ok());
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ADDR_ERROR); }));
  EXPECT_EQ(client.Last().status, -ETIMEDOUT);
  EXPECT_EQ(client.manager->CreateId(RDMA_PS_UDP, client.Handler()).status().code(),
            absl::StatusCode::kUnimplemented);
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

TEST_F(ManagerTest, QueuePairThatWillNotMove) {
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
  ASSERT_TRUE(world.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(client.Last().status, 3);
  EXPECT_EQ(server.Last().type, RDMA_CM_EVENT_CONNECT_ERROR);

  server.env->moves_fail = false;
  server.AcceptAll();
  Host third{&world, 3};
  third.Prepare(server.address);
  ASSERT_TRUE(third.Connect().ok());
  third.env->moves_fail = true;
  ASSERT_TRUE(world.RunUntil([&] { return third.Saw(RDMA_CM_EVENT_CONNECT_ERROR); }));
  ASSERT_TRUE(world.RunUntil([&] { return server.Saw(RDMA_CM_EVENT_REJECTED); }));
}

TEST_F(ManagerTest, BacklogIsBounded) {
  Host small{&world, 5, {.max_ids = 4, .max_pending_requests = 2}};
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

TEST_F(ManagerTest, FullSendQueueIsSurvived) {
  client.env->queue_full = true;
  Start();
  world.Run(kSecond);
  EXPECT_EQ(client.drop(MadDrop::kSendQueueFull), 1u);
  EXPECT_EQ(client.manager->counters().of(Attribute::kReq).sent, 0u);
  client.env->queue_full = false;
  EXPECT_TRUE(world.RunUntil([&] { return BothEstablished(); }));
}

TEST_F(ManagerTest, HandlersMayDestroyTheirIdentifier) {
  for (const rdma_cm_event_type type :
       {RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED,
        RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ADDR_RESOLVED,
        RDMA_CM_EVENT_ROUTE_RESOLVED}) {
    FakeWorld own;
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
TEST_F(ManagerTest, DestroyAtEveryPoint) {
  for (const bool client_side : {true, false}) {
    for (int steps = 0; steps < 40; ++steps) {
      FakeWorld own(static_cast<uint64_t>(steps) + 1);
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

TEST_F(ManagerTest, ManyConnectionsLeaveNothing) {
  server.Listen();
  server.AcceptAll();
  for (int i = 0; i < 200; ++i) {
    client.events.clear();
    server.events.clear();
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
    ASSERT_TRUE(world.RunUntil([&] { return BothEstablished(); })) << i;
    Host& first = i % 2 == 0 ? client : server;
    ASSERT_TRUE(first.manager->Disconnect(first.id).ok());
    ASSERT_TRUE(world.RunUntil([&] {
      return client.Saw(RDMA_CM_EVENT_DISCONNECTED) && server.Saw(RDMA_CM_EVENT_DISCONNECTED);
    }));
    client.manager->DestroyId(client.id);
    server.manager->DestroyId(server.id);
  }
  ExpectNothingLeft();
}

// Loss, duplication and reordering (through retries) of any message: both sides always come to an
// end that they agree on.
TEST_F(ManagerTest, EndsUnderHeavyLoss) {
  int established = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    FakeWorld own(seed);
    Host a{&own, 2};
    Host b{&own, 1};
    b.Listen();
    b.AcceptAll();
    own.network = [&](const Datagram&) {
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

TEST_F(ManagerTest, CutAndRandomBytes) {
  Establish();
  std::vector<MadBuffer> real;
  for (const Datagram& datagram : world.log) real.push_back(datagram.mad);
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
    if (i % 100 == 0) world.Run(kSecond);
  }
  EXPECT_LE(server.manager->size(), ManagerConfig{}.max_ids);
}

TEST(ToStringTest, Endpoints) {
  EXPECT_EQ(ToString(Endpoint{Gid::FromIpv4(0xC0000201), 20049}), "192.0.2.1:20049");
  Gid gid;
  gid.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_EQ(ToString(Endpoint{gid, 1}), "[2001:db8::1]:1");
}

}  // namespace
}  // namespace pollux::cm
