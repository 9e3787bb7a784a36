// rdma_cm's connections of queue pairs that the program has made and moves by itself, as UCX does:
// one port as both ends.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/settings.h"

namespace pollux::compat {
namespace {

constexpr uint16_t kPort = 7471;
constexpr uint8_t kPrivateData[] = {'o', 'w', 'n'};

// One side: its queue pair, which rdma_cm does not know, and a message.
class Side {
 public:
  ~Side() {
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
      EXPECT_EQ(ibv_destroy_cq(cq), 0);
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    if (id != nullptr) {
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
  }
  void MakeQp() {
    pd = id->pd;
    ASSERT_NE(pd, nullptr) << "librdmacm's own, which UCX makes its queue pair in";
    cq = ibv_create_cq(id->verbs, 4, nullptr, nullptr, 0);
    ibv_qp_init_attr init = ReliableQp(2);
    init.send_cq = init.recv_cq = cq;
    init.sq_sig_all = 1;
    qp = ibv_create_qp(pd, &init);
    mr = ibv_reg_mr(pd, text.data(), text.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_TRUE(qp != nullptr && mr != nullptr);
  }
  int Move(ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(id, &attr, &mask) != 0) return errno;
    return ibv_modify_qp(qp, &attr, mask);
  }
  rdma_conn_param Param() const {
    rdma_conn_param param{};
    param.private_data = kPrivateData;
    param.private_data_len = sizeof kPrivateData;
    param.retry_count = param.rnr_retry_count = 7;
    param.qp_num = qp->qp_num;
    return param;
  }
  ibv_sge Element() {
    return {.addr = reinterpret_cast<uint64_t>(text.data()),
            .length = static_cast<uint32_t>(text.size()),
            .lkey = mr->lkey};
  }
  ibv_wc Await() {
    ibv_wc completion{};
    while (ibv_poll_cq(cq, 1, &completion) == 0) {
    }
    return completion;
  }

  rdma_cm_id* id = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::array<char, 64> text{};
};

class OwnQueuePairTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPortOfOne, 1); }
  void SetUp() override {
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr);
    Ipv4Address address(kAddressOfOne, kPort);
    ASSERT_EQ(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(rdma_bind_addr(listener_, address.get()), 0) << std::strerror(errno);
    ASSERT_EQ(rdma_listen(listener_, 1), 0);
    ASSERT_EQ(rdma_create_id(channel_, &client_->id, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(rdma_resolve_addr(client_->id, nullptr, address.get(), kResolveTimeoutMs), 0);
    Await(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rdma_resolve_route(client_->id, kResolveTimeoutMs), 0);
    Await(RDMA_CM_EVENT_ROUTE_RESOLVED);
    client_->MakeQp();
  }
  void TearDown() override {
    EXPECT_EQ(rdma_destroy_id(listener_), 0);
    client_.reset();
    server_.reset();
    rdma_destroy_event_channel(channel_);
  }
  // The next event, which is of that type: whom it is about. With `peer_qpn` it names the peer's
  // queue pair and bears its private data.
  rdma_cm_id* Await(rdma_cm_event_type type, uint32_t* peer_qpn = nullptr) {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_EQ(event->event, type) << rdma_event_str(event->event) << " " << event->status;
    rdma_cm_id* const id = event->id;
    if (peer_qpn != nullptr) {
      *peer_qpn = event->param.conn.qp_num;
      EXPECT_GE(event->param.conn.private_data_len, sizeof kPrivateData);
      EXPECT_EQ(std::memcmp(event->param.conn.private_data, kPrivateData, sizeof kPrivateData), 0);
    }
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return id;
  }
  void Request() {
    rdma_conn_param param = client_->Param();
    ASSERT_EQ(rdma_connect(client_->id, &param), 0) << std::strerror(errno);
    uint32_t qpn = 0;
    server_->id = Await(RDMA_CM_EVENT_CONNECT_REQUEST, &qpn);
    EXPECT_EQ(qpn, client_->qp->qp_num);
    server_->MakeQp();
  }
  static void MoveToRts(Side& side) {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      ASSERT_EQ(side.Move(state), 0) << state;
    }
  }

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  std::unique_ptr<Side> client_ = std::make_unique<Side>();
  std::unique_ptr<Side> server_ = std::make_unique<Side>();
};

TEST_F(OwnQueuePairTest, IsConnectedAndCarriesAMessage) {
  Request();
  MoveToRts(*server_);
  ibv_sge to = server_->Element();
  ibv_recv_wr receive{};
  receive.sg_list = &to;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(server_->qp, &receive, &bad_receive), 0);
  rdma_conn_param param = server_->Param();
  ASSERT_EQ(rdma_accept(server_->id, &param), 0) << std::strerror(errno);
  uint32_t qpn = 0;
  EXPECT_EQ(Await(RDMA_CM_EVENT_CONNECT_RESPONSE, &qpn), client_->id);
  EXPECT_EQ(qpn, server_->qp->qp_num);
  MoveToRts(*client_);
  ASSERT_EQ(rdma_establish(client_->id), 0) << std::strerror(errno);
  EXPECT_EQ(Await(RDMA_CM_EVENT_ESTABLISHED), server_->id);

  std::strcpy(client_->text.data(), "a message");
  ibv_sge from = client_->Element();
  ibv_send_wr send{};
  send.sg_list = &from;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(client_->qp, &send, &bad_send), 0);
  EXPECT_EQ(server_->Await().status, IBV_WC_SUCCESS);
  EXPECT_EQ(client_->Await().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(server_->text.data(), "a message");

  ASSERT_EQ(rdma_disconnect(client_->id), 0);
  Await(RDMA_CM_EVENT_DISCONNECTED);
  Await(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(client_->qp->state, IBV_QPS_RTS) << "it is the program's to end";
}

TEST_F(OwnQueuePairTest, AResponseMayBeRejected) {
  Request();
  MoveToRts(*server_);
  rdma_conn_param param = server_->Param();
  ASSERT_EQ(rdma_accept(server_->id, &param), 0);
  Await(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_reject(client_->id, nullptr, 0), 0);
  EXPECT_EQ(Await(RDMA_CM_EVENT_REJECTED), server_->id);
}

TEST_F(OwnQueuePairTest, CallsInTheWrongStateAreRefused) {
  EXPECT_EQ(rdma_establish(client_->id), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(client_->Move(IBV_QPS_RTR), EINVAL) << "the peer is not known";
  EXPECT_EQ(client_->Move(IBV_QPS_ERR), EINVAL);
  EXPECT_EQ(client_->Move(IBV_QPS_INIT), 0);
  rdma_conn_param none{};
  EXPECT_EQ(rdma_connect(client_->id, &none), -1) << "no queue pair has the number 0";
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(MakeQp(client_->id), 0);
  EXPECT_EQ(rdma_establish(client_->id), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_destroy_qp(client_->id);
}

// Queue pairs that programs move from one identifier to another, by `qp`: what librdmacm looks at
// when a call is made.
class MovedQueuePairTest : public OwnQueuePairTest {
 protected:
  void SetUp() override {
    OwnQueuePairTest::SetUp();
    cq_ = ibv_create_cq(client_->id->verbs, 16, nullptr, nullptr, 0);
    ASSERT_NE(cq_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    OwnQueuePairTest::TearDown();
  }
  // One that has its queue pair before there is a peer, as uDAPL makes it.
  rdma_cm_id* MakeEndpoint() {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(pollux::compat::Bind(id, kAddressOfOne, 0), 0);
    EXPECT_EQ(GiveQp(id), 0) << std::strerror(errno);
    return id;
  }
  int GiveQp(rdma_cm_id* id) {
    ibv_qp_init_attr init = ReliableQp(4);
    init.send_cq = init.recv_cq = cq_;
    init.sq_sig_all = 1;
    return rdma_create_qp(id, nullptr, &init);
  }
  rdma_cm_id* Ask() {
    rdma_conn_param param{};
    EXPECT_EQ(rdma_connect(client_->id, &param), 0) << std::strerror(errno);
    return Await(RDMA_CM_EVENT_CONNECT_REQUEST);
  }
  void AwaitEstablished() {
    Await(RDMA_CM_EVENT_ESTABLISHED);
    Await(RDMA_CM_EVENT_ESTABLISHED);
  }
  void AwaitDisconnected() {
    Await(RDMA_CM_EVENT_DISCONNECTED);
    Await(RDMA_CM_EVENT_DISCONNECTED);
  }
  static void PostReceive(ibv_qp* qp) {
    ibv_recv_wr receive{};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  }
  // An empty message, for which the other side has a receive.
  void ExpectCarries(ibv_qp* from) {
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(from, &send, &bad), 0);
    for (int completions = 0; completions < 2;) {
      ibv_wc completion{};
      if (ibv_poll_cq(cq_, 1, &completion) == 0) continue;
      ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
      ++completions;
    }
  }
  static ibv_qp_state StateOf(ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  static void End(rdma_cm_id* id) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  void EndClient() {
    rdma_destroy_qp(client_->id);
    EXPECT_EQ(rdma_destroy_id(std::exchange(client_->id, nullptr)), 0);
  }

  ibv_cq* cq_ = nullptr;
};

TEST_F(MovedQueuePairTest, CanBeAcceptedBeforeAndAfterItsFirstIdentifierIsDestroyed) {
  for (const bool ended_before : {true, false}) {
    rdma_cm_id* endpoint = MakeEndpoint();
    PostReceive(endpoint->qp);
    rdma_cm_id* client = MakePeer(kAddressOfOne, kPort);
    rdma_destroy_qp(client);
    ASSERT_EQ(GiveQp(client), 0);
    ASSERT_EQ(rdma_migrate_id(client, channel_), 0);
    rdma_conn_param param{};
    ASSERT_EQ(rdma_connect(client, &param), 0);
    rdma_cm_id* request = Await(RDMA_CM_EVENT_CONNECT_REQUEST);
    request->qp = std::exchange(endpoint->qp, nullptr);
    if (ended_before) {
      EXPECT_EQ(rdma_destroy_id(endpoint), 0);
    }
    ASSERT_EQ(rdma_accept(request, &param), 0) << std::strerror(errno);
    EXPECT_EQ(StateOf(request->qp), IBV_QPS_RTS);
    AwaitEstablished();
    if (!ended_before) {
      EXPECT_EQ(rdma_destroy_id(endpoint), 0);
    }
    ExpectCarries(client->qp);
    ASSERT_EQ(rdma_disconnect(request), 0);
    EXPECT_EQ(request->qp->state, IBV_QPS_ERR);
    AwaitDisconnected();
    End(request);
    End(client);
  }
}

TEST_F(MovedQueuePairTest, IsConnected) {
  rdma_cm_id* endpoint = MakeEndpoint();
  client_->id->qp = std::exchange(endpoint->qp, nullptr);
  rdma_cm_id* request = Ask();
  ASSERT_EQ(GiveQp(request), 0);
  PostReceive(request->qp);
  ASSERT_EQ(rdma_accept(request, nullptr), 0);
  AwaitEstablished();
  ExpectCarries(client_->id->qp);
  ASSERT_EQ(rdma_disconnect(client_->id), 0);
  AwaitDisconnected();
  for (rdma_cm_id* id : {endpoint, request}) End(id);
  EndClient();
}

// It was made by ibv_create_qp(), and nothing has moved it yet.
TEST_F(MovedQueuePairTest, CanBeAcceptedWithoutAFormerIdentifier) {
  ASSERT_EQ(GiveQp(client_->id), 0);
  rdma_cm_id* request = Ask();
  server_->id = request;
  server_->MakeQp();
  request->qp = server_->qp;
  rdma_conn_param param{};
  ASSERT_EQ(rdma_accept(request, &param), 0) << std::strerror(errno);
  EXPECT_EQ(server_->qp->state, IBV_QPS_RTS);
  AwaitEstablished();
  ASSERT_EQ(rdma_disconnect(client_->id), 0);
  AwaitDisconnected();
  EndClient();
}

TEST_F(MovedQueuePairTest, CannotBeTakenFromAConnection) {
  ASSERT_EQ(GiveQp(client_->id), 0);
  rdma_cm_id* request = Ask();
  ASSERT_EQ(GiveQp(request), 0);
  PostReceive(request->qp);
  ASSERT_EQ(rdma_accept(request, nullptr), 0);
  AwaitEstablished();
  rdma_cm_id* peer = MakePeer(kAddressOfOne, kPort);
  ASSERT_EQ(rdma_migrate_id(peer, channel_), 0);
  rdma_conn_param param{};
  ASSERT_EQ(rdma_connect(peer, &param), 0);
  rdma_cm_id* second = Await(RDMA_CM_EVENT_CONNECT_REQUEST);
  second->qp = request->qp;
  EXPECT_EQ(rdma_accept(second, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  second->qp = nullptr;
  ExpectCarries(client_->id->qp);
  ASSERT_EQ(rdma_disconnect(client_->id), 0);
  AwaitDisconnected();
  EXPECT_EQ(rdma_destroy_id(second), 0);
  EXPECT_EQ(Await(RDMA_CM_EVENT_REJECTED), peer);
  for (rdma_cm_id* id : {peer, request}) End(id);
  EndClient();
}

TEST_F(MovedQueuePairTest, StaysInRtsWhenItsFormerConnectionEnds) {
  ASSERT_EQ(GiveQp(client_->id), 0);
  rdma_cm_id* request = Ask();
  ASSERT_EQ(GiveQp(request), 0);
  ASSERT_EQ(rdma_accept(request, nullptr), 0);
  AwaitEstablished();
  ibv_qp* moved = std::exchange(client_->id->qp, nullptr);
  ASSERT_EQ(rdma_disconnect(client_->id), 0);
  AwaitDisconnected();
  EXPECT_EQ(StateOf(moved), IBV_QPS_RTS);
  EXPECT_EQ(ibv_destroy_qp(moved), 0);
  End(request);
  EndClient();
}

TEST_F(MovedQueuePairTest, MovesToErrWhenItsNewConnectionEnds) {
  Request();
  MoveToRts(*server_);
  rdma_conn_param param = server_->Param();
  ASSERT_EQ(rdma_accept(server_->id, &param), 0);
  Await(RDMA_CM_EVENT_CONNECT_RESPONSE);
  MoveToRts(*client_);
  ASSERT_EQ(rdma_establish(client_->id), 0);
  Await(RDMA_CM_EVENT_ESTABLISHED);
  client_->id->qp = client_->qp;
  ASSERT_EQ(rdma_disconnect(client_->id), 0);
  EXPECT_EQ(client_->qp->state, IBV_QPS_ERR);
  AwaitDisconnected();
  client_->id->qp = nullptr;
}

TEST_F(MovedQueuePairTest, ItsFormerIdentifierMayGetAnotherQueuePair) {
  rdma_cm_id* endpoint = MakeEndpoint();
  ibv_qp* moved = std::exchange(endpoint->qp, nullptr);
  ASSERT_EQ(GiveQp(client_->id), 0);
  EXPECT_EQ(GiveQp(client_->id), -1) << "it has one";
  EXPECT_EQ(errno, EINVAL);
  rdma_destroy_qp(client_->id);
  ASSERT_EQ(GiveQp(endpoint), 0);
  EXPECT_EQ(ibv_destroy_qp(moved), 0);
  client_->id->qp = std::exchange(endpoint->qp, nullptr);
  rdma_cm_id* request = Ask();
  EXPECT_EQ(rdma_reject(request, nullptr, 0), 0);
  EXPECT_EQ(Await(RDMA_CM_EVENT_REJECTED), client_->id);
  EXPECT_EQ(rdma_destroy_id(request), 0);
  EXPECT_EQ(rdma_destroy_id(endpoint), 0);
  EndClient();
}

// The completion queues that rdma_create_qp() made stay the identifier's.
TEST_F(MovedQueuePairTest, CompletionQueuesStayWithTheIdentifier) {
  ASSERT_EQ(MakeQp(client_->id), 0);
  ibv_cq* made = client_->id->recv_cq;
  ibv_qp* moved = std::exchange(client_->id->qp, nullptr);
  EXPECT_EQ(GiveQp(client_->id), -1) << "other queues than the identifier's";
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(MakeQp(client_->id), 0);
  EXPECT_EQ(client_->id->recv_cq, made);
  EXPECT_EQ(client_->id->qp->recv_cq, made);
  EXPECT_EQ(ibv_destroy_qp(moved), 0);
  rdma_destroy_qp(client_->id);
}

// As librdmacm, which looks whether there is one when the program takes the event.
TEST_F(MovedQueuePairTest, AnIdentifierThatGetsItWhileConnectingMovesItToRts) {
  Request();
  MoveToRts(*server_);
  rdma_conn_param param = server_->Param();
  ASSERT_EQ(rdma_accept(server_->id, &param), 0);
  client_->id->qp = client_->qp;
  for (int i = 0; i < 2; ++i) {
    rdma_cm_id* id = Await(RDMA_CM_EVENT_ESTABLISHED);
    if (id == client_->id) {
      EXPECT_EQ(client_->qp->state, IBV_QPS_RTS);
    }
  }
  ASSERT_EQ(rdma_disconnect(client_->id), 0);
  AwaitDisconnected();
  client_->id->qp = nullptr;
}

// rdma_accept() of a datagram service names the queue pair and does not move it.
TEST_F(MovedQueuePairTest, AUdQueuePairIsNamedInTheSidrReply) {
  constexpr uint16_t kDatagramPort = 7472;
  ibv_qp_init_attr init = ReliableQp(4);
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = cq_;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &listener, nullptr, RDMA_PS_UDP), 0);
  ASSERT_EQ(pollux::compat::Bind(listener, kAddressOfOne, kDatagramPort), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_cm_id* asker = nullptr;
  Ipv4Address address(kAddressOfOne, kDatagramPort);
  ASSERT_EQ(rdma_create_id(channel_, &asker, nullptr, RDMA_PS_UDP), 0);
  ASSERT_EQ(rdma_resolve_addr(asker, nullptr, address.get(), kResolveTimeoutMs), 0);
  Await(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(asker, kResolveTimeoutMs), 0);
  Await(RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param param{};
  ASSERT_EQ(rdma_connect(asker, &param), 0);
  rdma_cm_id* request = Await(RDMA_CM_EVENT_CONNECT_REQUEST);
  request->qp = ibv_create_qp(client_->id->pd, &init);
  ASSERT_NE(request->qp, nullptr);
  ASSERT_EQ(rdma_accept(request, &param), 0) << std::strerror(errno);
  EXPECT_EQ(StateOf(request->qp), IBV_QPS_RESET);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ESTABLISHED) << rdma_event_str(event->event);
  EXPECT_EQ(event->param.ud.qp_num, request->qp->qp_num);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  End(request);
  for (rdma_cm_id* id : {asker, listener}) EXPECT_EQ(rdma_destroy_id(id), 0);
}

}  // namespace
}  // namespace pollux::compat
