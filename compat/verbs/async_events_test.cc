// Which asynchronous events a program is told of.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "compat/runtime/settings.h"
#include "compat/verbs/reliable_qp_for_test.h"

namespace pollux::compat {
namespace {

constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";
constexpr uint32_t kDepth = 4;

class AsyncEventsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPort, 1); }
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    const int flags = fcntl(context_->async_fd, F_GETFL);
    ASSERT_EQ(fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, kDepth, nullptr, nullptr, 0);
    ASSERT_TRUE(pd_ != nullptr && cq_ != nullptr);
    ibv_qp_init_attr init = ReliableQp(kDepth);
    init.send_cq = init.recv_cq = cq_;
    sender_ = ibv_create_qp(pd_, &init);
    receiver_ = ibv_create_qp(pd_, &init);
    ASSERT_TRUE(sender_ != nullptr && receiver_ != nullptr);
    ASSERT_EQ(MoveToRts(sender_, PeerAtSamePort(context_, receiver_->qp_num)), 0);
  }
  void TearDown() override {
    for (ibv_qp* qp : {sender_, receiver_}) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
  // A message that arrives; its two completions are there.
  void Send() {
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    ASSERT_EQ(ibv_post_recv(receiver_, &receive, &bad_receive), 0);
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_send = nullptr;
    ASSERT_EQ(ibv_post_send(sender_, &send, &bad_send), 0);
    for (int completions = 0; completions < 2;) {
      ibv_wc wc{};
      completions += ibv_poll_cq(cq_, 1, &wc);
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);  // of none: 0
    }
  }
  bool ThereIsNone() {
    ibv_async_event event{};
    return ibv_get_async_event(context_, &event) == -1 && errno == EAGAIN;
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp *sender_ = nullptr, *receiver_ = nullptr;
};

TEST_F(AsyncEventsTest, TheFirstPacketInRtrGivesCommEst) {
  ASSERT_EQ(MoveToRtr(receiver_, PeerAtSamePort(context_, sender_->qp_num)), 0);
  Send();
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.element.qp, receiver_);
  ibv_ack_async_event(&event);
  Send();
  EXPECT_TRUE(ThereIsNone());
}

// A program that never asks for events has none to acknowledge before it destroys a queue pair.
TEST_F(AsyncEventsTest, TheFirstPacketInRtsGivesNoEvent) {
  ASSERT_EQ(MoveToRts(receiver_, PeerAtSamePort(context_, sender_->qp_num)), 0);
  Send();
  EXPECT_TRUE(ThereIsNone());
}

}  // namespace
}  // namespace pollux::compat
