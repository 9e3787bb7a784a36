#include "stack/verbs/queue_pair.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "stack/wire/ext_headers.h"

namespace pollux::verbs {
namespace {

class QueuePairTest : public ::testing::Test {
 protected:
  QueuePairTest() {
    QueuePairInitAttr init;
    init.pd = &pd_;
    init.send_cq = &cq_;
    init.recv_cq = &cq_;
    init.cap = {.max_send_wr = 3,
                .max_recv_wr = 2,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = 16};
    init.on_event = [this](ibv_event_type event) { events_.push_back(event); };
    qp_ = std::make_unique<QueuePair>(Qpn{42}, std::move(init), &active_);
  }
  // With a path MTU of 256 bytes.
  void ToRts() {
    ibv_qp_attr attr{};
    attr.path_mtu = IBV_MTU_256;
    attr.dest_qp_num = 43;
    attr.port_num = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    const auto modify = [&](ibv_qp_state state, int mask) {
      attr.qp_state = state;
      const absl::Status status = qp_->Modify(attr, mask | IBV_QP_STATE);
      ASSERT_TRUE(status.ok()) << status;
    };
    modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    modify(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC);
  }
  int Send(uint64_t wr_id, int num_sge = 1, int flags = 0, ibv_wr_opcode opcode = IBV_WR_SEND) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = sge_;
    wr.num_sge = num_sge;
    wr.opcode = opcode;
    wr.send_flags = flags;
    return qp_->PostSend(&wr, nullptr);
  }
  int Recv(uint64_t wr_id) {
    ibv_recv_wr wr{};
    wr.wr_id = wr_id;
    return qp_->PostRecv(&wr, nullptr);
  }
  std::vector<ibv_wc> Completions() {
    std::vector<ibv_wc> all(16);
    all.resize(cq_.Poll(16, all.data()));
    return all;
  }
  memory::ProtectionDomain pd_;
  CompletionQueue cq_{16};
  ActiveList active_;
  uint8_t data_[32] = {};
  ibv_sge sge_[3] = {{reinterpret_cast<uint64_t>(data_), 8, 1},
                     {reinterpret_cast<uint64_t>(data_ + 8), 8, 1},
                     {reinterpret_cast<uint64_t>(data_ + 16), 8, 1}};
  std::vector<ibv_event_type> events_;
  std::unique_ptr<QueuePair> qp_;
};

TEST_F(QueuePairTest, PostsAreRefusedInTheWrongState) {
  EXPECT_EQ(Send(1), EINVAL);
  EXPECT_EQ(Recv(1), EINVAL);
  qp_->attr.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(Send(1), EINVAL);
  EXPECT_EQ(Recv(1), 0);
}

TEST_F(QueuePairTest, PostsToFullQueuesFailWithEnomem) {
  ToRts();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Send(i), 0);
  EXPECT_EQ(Send(3), ENOMEM);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Recv(i), 0);
  EXPECT_EQ(Recv(2), ENOMEM);
}

// As the general calls, request by request and refusal by refusal.
TEST_F(QueuePairTest, PostOneSendAndPostOneRecvMatchTheGeneralCalls) {
  EXPECT_EQ(qp_->PostOneSend(1, sge_[0], 0, 0), EINVAL);
  EXPECT_EQ(qp_->PostOneRecv(1, sge_[0]), EINVAL);
  ToRts();
  EXPECT_EQ(qp_->PostOneSend(1, sge_[0], IBV_SEND_SIGNALED, 0), 0);
  EXPECT_EQ(qp_->PostOneSend(2, sge_[1], 0, 0x77), 0);
  const ibv_sge long_one{sge_[0].addr, 300, 1};
  EXPECT_EQ(qp_->PostOneSend(3, long_one, 0, 0), 0);
  EXPECT_EQ(qp_->PostOneSend(4, sge_[0], 0, 0), ENOMEM);
  EXPECT_EQ(active_.front(), qp_.get());
  EXPECT_EQ(qp_->sq(0).opcode, IBV_WR_SEND);
  EXPECT_EQ(qp_->sq(0).length, 8u);
  EXPECT_EQ(qp_->sq(1).opcode, IBV_WR_SEND_WITH_INV);
  EXPECT_EQ(qp_->sq(1).rkey, 0x77u);
  EXPECT_EQ(qp_->sq_sge(1)->addr, sge_[1].addr);
  EXPECT_EQ(qp_->sq(2).packets, 2u) << "of 256 bytes";
  for (uint64_t wr_id : {1, 2}) EXPECT_EQ(qp_->PostOneRecv(wr_id, sge_[0]), 0);
  EXPECT_EQ(qp_->PostOneRecv(3, sge_[0]), ENOMEM);
  ASSERT_TRUE(qp_->TakeRecv());
  EXPECT_EQ(qp_->recv().length, 8u);
  qp_->EnterError();
  EXPECT_EQ(Completions().size(), 5u);
  EXPECT_EQ(qp_->PostOneSend(5, sge_[0], 0, 0), 0);
  EXPECT_EQ(qp_->PostOneRecv(6, sge_[0]), 0);
  const std::vector<ibv_wc> flushed = Completions();
  ASSERT_EQ(flushed.size(), 2u);
  for (const ibv_wc& wc : flushed) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(QueuePairTest, SinglePacketMessagesAreMarkedAtPost) {
  ToRts();
  const auto is_single_packet = [this](int posted) {
    EXPECT_EQ(posted, 0);
    const bool result = qp_->sq(qp_->sq_head()).is_single_packet;
    qp_->CompleteSend(IBV_WC_SUCCESS);
    return result;
  };
  EXPECT_TRUE(is_single_packet(Send(1)));
  EXPECT_TRUE(is_single_packet(Send(1, 1, 0, IBV_WR_RDMA_WRITE)));
  EXPECT_TRUE(is_single_packet(qp_->PostOneSend(1, sge_[0], 0, /*invalidate=*/0)));
  EXPECT_FALSE(is_single_packet(qp_->PostOneSend(1, sge_[0], 0, /*invalidate=*/7)));
  EXPECT_FALSE(is_single_packet(Send(1, 1, IBV_SEND_FENCE)));
  EXPECT_FALSE(is_single_packet(Send(1, 1, IBV_SEND_INLINE)));
  EXPECT_FALSE(is_single_packet(Send(1, 2))) << "two elements";
  EXPECT_FALSE(is_single_packet(Send(1, 1, 0, IBV_WR_SEND_WITH_IMM)));
  EXPECT_FALSE(is_single_packet(Send(1, 1, 0, IBV_WR_RDMA_READ)));
}

TEST_F(QueuePairTest, ShortSendsAreMarkedAtPost) {
  ToRts();
  const auto is_short = [this](int posted) {
    EXPECT_EQ(posted, 0);
    const bool result = qp_->sq(qp_->sq_head()).is_short_send;
    qp_->CompleteSend(IBV_WC_SUCCESS);
    return result;
  };
  EXPECT_TRUE(is_short(Send(1)));
  EXPECT_TRUE(is_short(Send(1, 1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)));
  EXPECT_TRUE(is_short(qp_->PostOneSend(1, sge_[0], 0, /*invalidate=*/0)));
  EXPECT_FALSE(is_short(qp_->PostOneSend(1, sge_[0], 0, /*invalidate=*/7)));
  EXPECT_FALSE(is_short(Send(1, 0))) << "no element";
  EXPECT_FALSE(is_short(Send(1, 2))) << "two elements";
  EXPECT_FALSE(is_short(Send(1, 1, IBV_SEND_INLINE)));
  EXPECT_FALSE(is_short(Send(1, 1, 0, IBV_WR_SEND_WITH_IMM)));
  EXPECT_FALSE(is_short(Send(1, 1, 0, IBV_WR_RDMA_WRITE)));
  EXPECT_FALSE(is_short(Send(1, 1, 0, IBV_WR_RDMA_READ)));
  sge_[0].length = 257;
  EXPECT_FALSE(is_short(Send(1))) << "two packets";
  sge_[0].length = 256;
  EXPECT_TRUE(is_short(Send(1)));
  sge_[0].length = 0;
  EXPECT_FALSE(is_short(Send(1))) << "no bytes";
}

TEST_F(QueuePairTest, InvalidWorkRequestsAreRefused) {
  ToRts();
  EXPECT_EQ(Send(1, 3), EINVAL) << "more elements than max_send_sge";
  EXPECT_EQ(Send(1, 2, IBV_SEND_INLINE), 0) << "16 inline bytes";
  sge_[0].length = 9;
  EXPECT_EQ(Send(1, 2, IBV_SEND_INLINE), EINVAL) << "17 inline bytes";
  EXPECT_EQ(Send(1, 1, IBV_SEND_INLINE, IBV_WR_RDMA_READ), EINVAL);
  EXPECT_EQ(Send(1, 1, 0, IBV_WR_TSO), EINVAL);
  sge_[0].length = sge_[1].length = 1u << 30;
  EXPECT_EQ(Send(1, 2), EINVAL) << "2^23 packets of 256 bytes";
  --sge_[1].length;
  sge_[1].length -= 255;
  EXPECT_EQ(Send(1, 2), 0) << "one packet less";
}

TEST_F(QueuePairTest, FlushesAreCheckedAndHaveOnePacket) {
  ToRts();
  const auto post = [&](uint64_t length, uint8_t placement, uint8_t selectivity, int flags = 0) {
    FlushWorkRequest wr{};
    wr.opcode = kWrFlush;
    wr.sg_list = sge_;  // as after ibv_wr_set_sge(3): not used
    wr.num_sge = 1;
    wr.send_flags = static_cast<unsigned>(flags);
    wr.length = length;
    wr.placement = placement;
    wr.selectivity = selectivity;
    return qp_->PostSend(&wr, nullptr);
  };
  EXPECT_EQ(post(64, 0, wire::kFlushRange), EINVAL) << "no placement";
  EXPECT_EQ(post(64, 4, wire::kFlushRange), EINVAL) << "an unknown placement";
  EXPECT_EQ(post(64, wire::kFlushGlobal, 2), EINVAL) << "an unknown selectivity";
  EXPECT_EQ(post(64, wire::kFlushGlobal, wire::kFlushRange, IBV_SEND_INLINE), EINVAL);
  EXPECT_EQ(post(kMaxMessage + 1, wire::kFlushGlobal, wire::kFlushRange), EINVAL);
  EXPECT_EQ(post(kMaxMessage, wire::kFlushGlobal | wire::kFlushPersistent, wire::kFlushRange), 0);
  const SendWqe& wqe = qp_->sq(qp_->sq_tail() - 1);
  EXPECT_EQ(wqe.packets, 1u);
  EXPECT_EQ(wqe.flush.length, kMaxMessage);
  EXPECT_EQ(wqe.length, 0u) << "bytes of payload";
  EXPECT_TRUE(wqe.has_response());
  EXPECT_EQ(post(uint64_t{kMaxMessage} + 1, wire::kFlushGlobal, wire::kFlushRegion), 0);
  EXPECT_EQ(qp_->sq(qp_->sq_tail() - 1).flush.length, 0u) << "which peers may check";
}

TEST_F(QueuePairTest, BadWrPointsToTheFirstRequestNotPosted) {
  ToRts();
  ibv_send_wr wr[5] = {};
  for (int i = 0; i < 4; ++i) wr[i].next = &wr[i + 1];
  const ibv_send_wr* bad = nullptr;
  EXPECT_EQ(qp_->PostSend(wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr[3]);
}

TEST_F(QueuePairTest, AChainIsCheckedAsAWholeBeforeItIsPosted) {
  ibv_send_wr wr[4] = {};
  for (int i = 0; i < 3; ++i) wr[i].next = &wr[i + 1];
  EXPECT_EQ(qp_->CheckSends(wr), EINVAL) << "the state";
  ToRts();
  EXPECT_EQ(qp_->CheckSends(wr), ENOMEM);
  wr[2].next = nullptr;
  EXPECT_EQ(qp_->CheckSends(wr), 0);
  wr[2].num_sge = -1;
  EXPECT_EQ(qp_->CheckSends(wr), EINVAL);
  wr[2].num_sge = 0;
  EXPECT_EQ(Send(1), 0) << "nothing has been posted by looking";
  EXPECT_EQ(qp_->CheckSends(wr), ENOMEM);
  wr[2].next = &wr[3];
  qp_->EnterError();
  EXPECT_EQ(qp_->CheckSends(wr), 0) << "they are flushed one by one";
}

TEST_F(QueuePairTest, InlineDataIsCopiedAtPost) {
  ToRts();
  data_[0] = 7;
  ASSERT_EQ(Send(1, 1, IBV_SEND_INLINE), 0);
  data_[0] = 9;
  EXPECT_EQ(qp_->sq_inline(0)[0], 7);
}

TEST_F(QueuePairTest, OnlySignaledSuccessesComplete) {
  ToRts();
  Send(1);
  Send(2, 1, IBV_SEND_SIGNALED);
  qp_->CompleteSend(IBV_WC_SUCCESS);
  qp_->CompleteSend(IBV_WC_SUCCESS);
  const std::vector<ibv_wc> all = Completions();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].wr_id, 2u);
  EXPECT_EQ(all[0].qp_num, 42u);
}

TEST_F(QueuePairTest, ErrFlushesPostedAndLaterRequests) {
  ToRts();
  Send(1);
  Recv(2);
  qp_->EnterError();
  EXPECT_EQ(qp_->state(), IBV_QPS_ERR);
  EXPECT_EQ(Send(3), 0);
  EXPECT_EQ(Recv(4), 0);
  const std::vector<ibv_wc> all = Completions();
  ASSERT_EQ(all.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].wr_id, i + 1);
    EXPECT_EQ(all[i].status, IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_F(QueuePairTest, CompletionQueueOverrunIsFatal) {
  ToRts();
  for (int i = 0; i < 16; ++i) cq_.Push(ibv_wc{});
  Send(1, 1, IBV_SEND_SIGNALED);
  qp_->CompleteSend(IBV_WC_SUCCESS);
  EXPECT_EQ(qp_->state(), IBV_QPS_ERR);
  ASSERT_TRUE(qp_->has_events());
  qp_->DeliverEvents();
  EXPECT_EQ(events_, std::vector<ibv_event_type>{IBV_EVENT_QP_FATAL});
}

TEST_F(QueuePairTest, ResetDropsAllRequests) {
  ToRts();
  Send(1);
  Recv(2);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  ASSERT_TRUE(qp_->Modify(reset, IBV_QP_STATE).ok());
  EXPECT_EQ(qp_->sq_head(), qp_->sq_tail());
  EXPECT_FALSE(qp_->TakeRecv());
  EXPECT_TRUE(Completions().empty());
}

TEST(ActiveListTest, QueuePairsAreServedInOrderAndOnce) {
  ActiveList active;
  memory::ProtectionDomain pd;
  CompletionQueue cq(1);
  const auto make = [&](uint32_t qpn) {
    QueuePairInitAttr init;
    init.pd = &pd;
    init.send_cq = init.recv_cq = &cq;
    return std::make_unique<QueuePair>(Qpn{qpn}, std::move(init), &active);
  };
  auto a = make(1), b = make(2), c = make(3);
  a->Activate();
  b->Activate();
  a->Activate();
  c->Activate();
  active.Remove(b.get());
  EXPECT_EQ(active.Pop(), a.get());
  a->Activate();
  c.reset();
  EXPECT_EQ(active.Pop(), a.get());
  EXPECT_EQ(active.Pop(), nullptr);
  EXPECT_TRUE(active.empty());
}

TEST(ActiveListTest, AcknowledgementsNeedNoTurn) {
  ActiveList active;
  memory::ProtectionDomain pd;
  CompletionQueue cq(1);
  QueuePairInitAttr init;
  init.pd = &pd;
  init.send_cq = init.recv_cq = &cq;
  auto qp = std::make_unique<QueuePair>(Qpn{1}, std::move(init), &active);
  qp->ActivateAck();
  qp->ActivateAck();
  EXPECT_TRUE(active.empty());
  qp->Activate();
  EXPECT_EQ(active.owed_acks().Pop(), qp.get());
  EXPECT_TRUE(active.owed_acks().empty());
  EXPECT_EQ(active.front(), qp.get());
  qp->ActivateAck();
  qp.reset();
  EXPECT_TRUE(active.empty());
  EXPECT_TRUE(active.owed_acks().empty());
}

}  // namespace
}  // namespace pollux::verbs
