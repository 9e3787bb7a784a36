#include "stack/engine/objects/multicast_groups.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "stack/memory/protection_domain.h"
#include "stack/verbs/completion_queue.h"

namespace pollux::engine {
namespace {

const Gid kGroup = Gid::FromIpv4(0xE1010203);

class MulticastGroupsTest : public ::testing::Test {
 protected:
  verbs::QueuePair* Make(ibv_qp_type type = IBV_QPT_UD) {
    verbs::QueuePairInitAttr init;
    init.type = type;
    init.pd = &pd_;
    init.send_cq = init.recv_cq = &cq_;
    return &queue_pairs_.emplace_back(Qpn{2}, std::move(init), &active_);
  }

  memory::ProtectionDomain pd_;
  verbs::CompletionQueue cq_{1};
  verbs::ActiveList active_;
  std::deque<verbs::QueuePair> queue_pairs_;
  MulticastGroups groups_;
};

TEST_F(MulticastGroupsTest, AttachNeedsAUdQueuePairAndAMulticastGroup) {
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(groups_.Attach(nullptr, kGroup).code(), kInvalid);
  EXPECT_EQ(groups_.Attach(Make(IBV_QPT_RC), kGroup).code(), kInvalid);
  EXPECT_EQ(groups_.Attach(Make(), Gid::FromIpv4(0xC0000201)).code(), kInvalid);
  EXPECT_EQ(groups_.size(), 0u);
}

TEST_F(MulticastGroupsTest, ASecondAttachHasNoEffect) {
  verbs::QueuePair* qp = Make();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(groups_.Attach(qp, kGroup).ok());
  EXPECT_EQ(*groups_.Find(kGroup), MulticastGroups::Members{qp});
  EXPECT_TRUE(groups_.Detach(qp, kGroup).ok());
  EXPECT_EQ(groups_.Detach(qp, kGroup).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(groups_.Find(kGroup), nullptr);
}

TEST_F(MulticastGroupsTest, MembersOfAGroupAreBounded) {
  for (uint32_t i = 0; i < MulticastGroups::kMaxMembers; ++i) {
    EXPECT_TRUE(groups_.Attach(Make(), kGroup).ok());
  }
  EXPECT_EQ(groups_.Attach(Make(), kGroup).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(MulticastGroupsTest, GroupsAreBounded) {
  verbs::QueuePair* qp = Make();
  for (uint32_t i = 0; i < MulticastGroups::kMaxGroups; ++i) {
    EXPECT_TRUE(groups_.Attach(qp, Gid::FromIpv4(0xE1000000 + i)).ok());
  }
  EXPECT_EQ(groups_.Attach(qp, kGroup).code(), absl::StatusCode::kResourceExhausted);
  groups_.Remove(qp);
  EXPECT_EQ(groups_.size(), 0u);
}

}  // namespace
}  // namespace pollux::engine
