#include "stack/verbs/shared_receive_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "stack/verbs/queue_pair.h"

namespace pollux::verbs {
namespace {

class SharedReceiveQueueTest : public ::testing::Test {
 protected:
  int Post(uint64_t wr_id, int num_sge = 1) {
    ibv_sge sge[3] = {{wr_id, 8, 1}, {wr_id + 1, 8, 1}, {wr_id + 2, 8, 1}};
    ibv_recv_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = sge;
    wr.num_sge = num_sge;
    return srq_.PostRecv(&wr, nullptr);
  }
  void Arm(uint32_t limit) {
    ibv_srq_attr attr{};
    attr.srq_limit = limit;
    EXPECT_TRUE(srq_.Modify(attr, IBV_SRQ_LIMIT).ok());
  }
  uint64_t Take() {
    RecvWqe wqe;
    ibv_sge sge[2];
    EXPECT_TRUE(srq_.Pop(&wqe, sge));
    return wqe.wr_id;
  }
  memory::ProtectionDomain pd_;
  std::vector<ibv_event_type> events_;
  SharedReceiveQueue srq_{
      &pd_, {.max_wr = 3, .max_sge = 2, .srq_limit = 0}, nullptr, [this](ibv_event_type event) {
        events_.push_back(event);
      }};
};

TEST_F(SharedReceiveQueueTest, ReceivesAndTheirElementsAreBounded) {
  EXPECT_EQ(Post(1, 2), 0);
  EXPECT_EQ(Post(1, 3), EINVAL);
  EXPECT_EQ(Post(2), 0);
  EXPECT_EQ(Post(3), 0);
  EXPECT_EQ(Post(4), ENOMEM);
  RecvWqe wqe;
  ibv_sge sge[2];
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(srq_.Pop(&wqe, sge));
    EXPECT_EQ(wqe.wr_id, i);
    EXPECT_EQ(sge[0].addr, i);
  }
  EXPECT_FALSE(srq_.Pop(&wqe, sge));
}

TEST_F(SharedReceiveQueueTest, EachArmingGivesOneLimitEvent) {
  for (int i = 0; i < 3; ++i) Post(i);
  Arm(2);
  EXPECT_EQ(srq_.attr().srq_limit, 2u);
  Take();
  EXPECT_FALSE(srq_.has_events()) << "as many as the limit";
  Take();
  ASSERT_TRUE(srq_.has_events());
  srq_.DeliverEvents();
  EXPECT_EQ(events_, std::vector<ibv_event_type>{IBV_EVENT_SRQ_LIMIT_REACHED});
  EXPECT_EQ(srq_.attr().srq_limit, 0u);
  Take();
  EXPECT_FALSE(srq_.has_events()) << "not armed any more";
  Arm(1);
  EXPECT_TRUE(srq_.has_events()) << "fewer already";
}

TEST_F(SharedReceiveQueueTest, ModifyChangesAllOrNothing) {
  ibv_srq_attr attr{};
  attr.srq_limit = 4;
  EXPECT_EQ(srq_.Modify(attr, IBV_SRQ_LIMIT).code(), absl::StatusCode::kInvalidArgument);
  for (const uint32_t max_wr : {0u, kMaxWorkRequests + 1}) {
    attr.max_wr = max_wr;
    EXPECT_EQ(srq_.Modify(attr, IBV_SRQ_MAX_WR).code(), absl::StatusCode::kInvalidArgument);
  }
  attr.max_wr = 5;
  attr.srq_limit = 6;
  EXPECT_FALSE(srq_.Modify(attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT).ok());
  EXPECT_EQ(srq_.attr().max_wr, 3u);
  attr.srq_limit = 5;
  EXPECT_TRUE(srq_.Modify(attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT).ok());
  EXPECT_TRUE(srq_.has_events()) << "fewer are posted than the limit";
  EXPECT_EQ(srq_.Modify(attr, 1 << 10).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SharedReceiveQueueTest, ResizeKeepsPostedReceives) {
  // Past the end of the ring.
  for (int i = 0; i < 3; ++i) {
    Post(100 + i);
    Take();
  }
  for (uint64_t i = 1; i <= 3; ++i) Post(i);
  ibv_srq_attr attr{};
  attr.max_wr = 2;
  EXPECT_EQ(srq_.Modify(attr, IBV_SRQ_MAX_WR).code(), absl::StatusCode::kFailedPrecondition);
  attr.max_wr = 9;
  ASSERT_TRUE(srq_.Modify(attr, IBV_SRQ_MAX_WR).ok());
  for (uint64_t i = 4; i <= 9; ++i) Post(i);
  ibv_recv_wr wr{};
  EXPECT_EQ(srq_.PostRecv(&wr, nullptr), ENOMEM);
  for (uint64_t i = 1; i <= 8; ++i) EXPECT_EQ(Take(), i);
  attr.max_wr = 1;
  ASSERT_TRUE(srq_.Modify(attr, IBV_SRQ_MAX_WR).ok());
  EXPECT_EQ(srq_.PostRecv(&wr, nullptr), ENOMEM);
  EXPECT_EQ(Take(), 9u);
}

TEST_F(SharedReceiveQueueTest, ATakenReceiveStaysWithItsQueuePairUntilComplete) {
  CompletionQueue cq(8);
  ActiveList active;
  std::vector<ibv_event_type> events;
  QueuePairInitAttr init;
  init.pd = &pd_;
  init.send_cq = init.recv_cq = &cq;
  init.srq = &srq_;
  init.on_event = [&](ibv_event_type event) { events.push_back(event); };
  QueuePair qp(Qpn{1}, std::move(init), &active);
  qp.attr.qp_state = IBV_QPS_RTS;
  ibv_recv_wr wr{};
  EXPECT_EQ(qp.PostRecv(&wr, nullptr), EINVAL) << "it has no receive queue of its own";
  EXPECT_FALSE(qp.TakeRecv());
  Post(1);
  Post(2);
  EXPECT_TRUE(qp.TakeRecv());
  EXPECT_TRUE(qp.TakeRecv());
  EXPECT_EQ(qp.recv().wr_id, 1u);
  EXPECT_EQ(srq_.depth(), 1u);
  ibv_wc done{};
  qp.CompleteRecv(done);
  EXPECT_TRUE(qp.TakeRecv());
  qp.EnterError();
  qp.DeliverEvents();
  EXPECT_EQ(events, std::vector<ibv_event_type>{IBV_EVENT_QP_LAST_WQE_REACHED});
  ibv_wc wc[4];
  ASSERT_EQ(cq.Poll(4, wc), 2);
  EXPECT_EQ(wc[0].wr_id, 1u);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[1].wr_id, 2u);
  EXPECT_EQ(wc[1].status, IBV_WC_WR_FLUSH_ERR) << "what it had taken";
}

}  // namespace
}  // namespace pollux::verbs
