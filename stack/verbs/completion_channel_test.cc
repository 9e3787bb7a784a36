#include "stack/verbs/completion_channel.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <vector>

#include "stack/verbs/completion_queue.h"

namespace pollux::verbs {
namespace {

class CompletionChannelTest : public ::testing::Test {
 protected:
  CompletionChannelTest() : channel_(CompletionChannel::Create().value()) {
    EXPECT_TRUE(cq_.SetChannel(channel_.get()).ok());
  }
  void Push(bool solicited = false, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc wc{};
    wc.status = status;
    EXPECT_TRUE(cq_.Push(wc, solicited));
  }
  bool Readable() {
    pollfd descriptor{.fd = channel_->fd(), .events = POLLIN, .revents = 0};
    return poll(&descriptor, 1, 0) == 1;
  }
  std::unique_ptr<CompletionChannel> channel_;
  CompletionQueue cq_{64};
};

TEST_F(CompletionChannelTest, EachArmingGivesOneEvent) {
  Push();
  EXPECT_FALSE(Readable()) << "not armed";
  cq_.Arm(false);
  EXPECT_FALSE(Readable()) << "what came before it was armed";
  Push();
  Push();
  EXPECT_TRUE(Readable());
  EXPECT_EQ(channel_->GetEvent(), &cq_);
  EXPECT_FALSE(Readable());
  EXPECT_EQ(channel_->GetEvent(), nullptr);
  Push();
  EXPECT_FALSE(Readable()) << "not armed again";
  cq_.Arm(false);
  Push();
  EXPECT_EQ(channel_->GetEvent(), &cq_);
}

TEST_F(CompletionChannelTest, ASolicitedArmingIgnoresUnsolicitedSuccesses) {
  cq_.Arm(true);
  Push();
  EXPECT_FALSE(Readable());
  Push(true);
  EXPECT_EQ(channel_->GetEvent(), &cq_);
  cq_.Arm(true);
  Push(false, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(channel_->GetEvent(), &cq_) << "a failure is always an event";
  cq_.Arm(false);
  cq_.Arm(true);
  Push();
  EXPECT_EQ(channel_->GetEvent(), &cq_) << "the wider wish stands";
}

TEST_F(CompletionChannelTest, ArmingBeforeTheEventIsTakenGivesOneEvent) {
  for (int i = 0; i < 3; ++i) {
    cq_.Arm(false);
    Push();
  }
  EXPECT_TRUE(cq_.announced());
  EXPECT_EQ(channel_->GetEvent(), &cq_);
  EXPECT_FALSE(cq_.announced());
  EXPECT_EQ(channel_->GetEvent(), nullptr) << "one tells of all";
}

TEST_F(CompletionChannelTest, EventsKeepTheOrderOfTheQueues) {
  CompletionQueue other(1);
  ASSERT_TRUE(other.SetChannel(channel_.get()).ok());
  cq_.Arm(false);
  other.Arm(false);
  ASSERT_TRUE(other.Push(ibv_wc{}));
  Push();
  EXPECT_EQ(channel_->GetEvent(), &other);
  EXPECT_EQ(channel_->GetEvent(), &cq_);
}

TEST_F(CompletionChannelTest, QueuesOfAChannelAreBounded) {
  std::vector<std::unique_ptr<CompletionQueue>> queues;
  for (uint32_t i = 1; i < CompletionChannel::kMaxQueues; ++i) {
    queues.push_back(std::make_unique<CompletionQueue>(1));
    ASSERT_TRUE(queues.back()->SetChannel(channel_.get()).ok());
  }
  CompletionQueue one_more(1);
  EXPECT_EQ(one_more.SetChannel(channel_.get()).code(), absl::StatusCode::kResourceExhausted);
  queues.pop_back();
  EXPECT_TRUE(one_more.SetChannel(channel_.get()).ok());
}

}  // namespace
}  // namespace pollux::verbs
