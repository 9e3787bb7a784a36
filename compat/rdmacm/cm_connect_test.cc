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

TEST_F(OwnQueuePairTest, CallsOutOfTurnAreRefused) {
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

}  // namespace
}  // namespace pollux::compat
