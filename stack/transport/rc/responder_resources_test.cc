#include "stack/transport/rc/responder_resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pollux::transport {
namespace {

const Psn kFirst(0xFFFFF8);  // wraps soon
constexpr uint32_t kCapacity = 4;

class ResponderResourcesTest : public ::testing::Test {
 protected:
  ResponderResourcesTest() { resources_.Start(kCapacity); }
  // Sends at most `most` packets; returns their PSNs less kFirst.
  std::vector<uint32_t> Send(uint32_t most) {
    std::vector<uint32_t> sent;
    while (sent.size() < most) {
      const auto [resource, response] = resources_.Next();
      if (resource == nullptr) break;
      sent.push_back(static_cast<uint32_t>(Distance(kFirst, resource->first_psn + response->next)));
      resource->sent = std::max(resource->sent, ++response->next);
    }
    return sent;
  }
  ResponderResources resources_;
};

TEST_F(ResponderResourcesTest, ResponsesAreSentInOrder) {
  resources_.Add(kFirst, 2);
  resources_.Add(kFirst + 2, 3);
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{}));
}

TEST_F(ResponderResourcesTest, FindsByAnyPsnOfARequest) {
  ResponderResource* a = resources_.Add(kFirst, 2);
  ResponderResource* b = resources_.Add(kFirst + 2, 30);
  EXPECT_EQ(resources_.Find(kFirst - 1), nullptr);
  EXPECT_EQ(resources_.Find(kFirst + 1), a);
  EXPECT_EQ(resources_.Find(kFirst + 2), b);
  EXPECT_EQ(resources_.Find(kFirst + 31), b);
  EXPECT_EQ(resources_.Find(kFirst + 32), nullptr);
}

// PSNs come again after 2^24 packets, which may be writes for the most part.
TEST_F(ResponderResourcesTest, FindReturnsTheNewestOfEqualPsns) {
  ASSERT_NE(resources_.Add(kFirst, 1), nullptr);
  Send(1);
  ResponderResource* now = resources_.Add(kFirst, 1);
  EXPECT_EQ(resources_.Find(kFirst), now);
}

TEST_F(ResponderResourcesTest, ARequestAboveTheCapacityIsRefusedUntilTheOldestIsAnswered) {
  for (uint32_t i = 0; i < kCapacity; ++i) ASSERT_NE(resources_.Add(kFirst + i, 1), nullptr);
  EXPECT_EQ(resources_.Add(kFirst + kCapacity, 1), nullptr);
  Send(1);
  EXPECT_NE(resources_.Add(kFirst + kCapacity, 1), nullptr);
  EXPECT_EQ(resources_.Find(kFirst), nullptr) << "forgotten";
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{1, 2, 3, 4}));
}

TEST_F(ResponderResourcesTest, ResizeKeepsTheNewest) {
  for (uint32_t i = 0; i < 3; ++i) ASSERT_NE(resources_.Add(kFirst + i, 1), nullptr);
  Send(2);
  resources_.Resize(2);
  EXPECT_EQ(resources_.Find(kFirst), nullptr) << "forgotten";
  EXPECT_NE(resources_.Find(kFirst + 1), nullptr);
  EXPECT_EQ(Send(100), std::vector<uint32_t>{2}) << "what was due is due still";
  resources_.Resize(8);
  for (uint32_t i = 3; i < 9; ++i) ASSERT_NE(resources_.Add(kFirst + i, 1), nullptr);
  EXPECT_NE(resources_.Find(kFirst + 1), nullptr);
  const ResponderResource* last = resources_.Add(kFirst + 9, 1);
  EXPECT_EQ(resources_.Find(kFirst + 9), last);
  EXPECT_EQ(resources_.Find(kFirst + 1), nullptr) << "the oldest of eight";
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{3, 4, 5, 6, 7, 8, 9}));
  resources_.Resize(0);
  EXPECT_EQ(resources_.Add(kFirst + 10, 1), nullptr);
}

TEST_F(ResponderResourcesTest, TheCapacityIsRoundedUpAsByAdapters) {
  resources_.Start(5);
  for (uint32_t i = 0; i < 8; ++i) ASSERT_NE(resources_.Add(kFirst + i, 1), nullptr) << i;
  EXPECT_EQ(resources_.Add(kFirst + 8, 1), nullptr);
}

TEST_F(ResponderResourcesTest, ZeroCapacityHoldsNoResource) {
  resources_.Start(0);
  EXPECT_EQ(resources_.Add(kFirst, 1), nullptr);
  EXPECT_EQ(resources_.Find(kFirst), nullptr);
  EXPECT_EQ(resources_.Next().resource, nullptr);
}

TEST_F(ResponderResourcesTest, AnAnsweredRequestIsAnsweredAgain) {
  ResponderResource* read = resources_.Add(kFirst, 6);
  Send(100);
  EXPECT_TRUE(read->answered());
  EXPECT_TRUE(resources_.Repeat(*read, 2, 4));
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{2, 3}));
}

TEST_F(ResponderResourcesTest, ARepetitionUpToTheEndRestartsTheResponse) {
  ResponderResource* read = resources_.Add(kFirst, 8);
  Send(5);
  EXPECT_TRUE(resources_.Repeat(*read, 2, 8));
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{2, 3, 4, 5, 6, 7}));
}

TEST_F(ResponderResourcesTest, AGapIsFilledBesideTheResponse) {
  ResponderResource* read = resources_.Add(kFirst, 8);
  Send(5);
  EXPECT_TRUE(resources_.Repeat(*read, 2, 4));
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{2, 3, 5, 6, 7}));
}

TEST_F(ResponderResourcesTest, ARepetitionOfUnsentPacketsIsNotSentTwice) {
  ResponderResource* read = resources_.Add(kFirst, 8);
  Send(2);
  EXPECT_TRUE(resources_.Repeat(*read, 3, 5));
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{2, 3, 4, 5, 6, 7}));
}

// It ends inside a packet that the answer has whole, or the answer inside one that it has whole.
TEST_F(ResponderResourcesTest, OneThatEndsElsewhereInAPacketIsNotInTheResponse) {
  ResponderResource* read = resources_.Add(kFirst, 8);
  Send(2);
  EXPECT_TRUE(resources_.Repeat(*read, 3, 5, 100));
  EXPECT_EQ(resources_.Next().response->cut, 100u);
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{3, 4, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(resources_.Repeat(*read, 3, 5, 100));
  EXPECT_EQ(Send(1), (std::vector<uint32_t>{3}));
  EXPECT_TRUE(resources_.Repeat(*read, 4, 5, 100)) << "in its turn";
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{4}));
  EXPECT_TRUE(resources_.Repeat(*read, 3, 5, 100));
  EXPECT_TRUE(resources_.Repeat(*read, 3, 5)) << "anew";
  EXPECT_EQ(resources_.Next().response->cut, 0u);
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{3, 4}));
  EXPECT_TRUE(resources_.Repeat(*read, 3, 5));
  EXPECT_TRUE(resources_.Repeat(*read, 3, 5, 100)) << "beside";
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{3, 4, 3, 4}));
}

TEST_F(ResponderResourcesTest, RepetitionsBesideResponsesAreBounded) {
  ResponderResource* read = resources_.Add(kFirst, 8);
  Send(5);
  for (uint32_t i = 0; i < ResponderResources::kMaxRepeats; ++i) {
    EXPECT_TRUE(resources_.Repeat(*read, 1, 2));
  }
  EXPECT_FALSE(resources_.Repeat(*read, 1, 2));
  EXPECT_EQ(Send(100).size(), ResponderResources::kMaxRepeats + 3);
  EXPECT_TRUE(resources_.Repeat(*read, 1, 2));
}

TEST_F(ResponderResourcesTest, ARepetitionOfAnEvictedRequestIsNotSent) {
  ResponderResource* read = resources_.Add(kFirst, 2);
  Send(100);
  resources_.Repeat(*read, 0, 2);
  Send(1);
  resources_.Repeat(*read, 0, 1);  // beside the one under way
  for (uint32_t i = 0; i < kCapacity; ++i) {
    ASSERT_NE(resources_.Add(kFirst + 2 + i, 1), nullptr) << i;
  }
  EXPECT_EQ(resources_.Find(kFirst), nullptr);
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{2, 3, 4, 5}));
}

TEST_F(ResponderResourcesTest, CancelledResponsesAreNotSent) {
  ResponderResource* read = resources_.Add(kFirst, 8);
  Send(5);
  resources_.Repeat(*read, 2, 4);
  resources_.Cancel();
  EXPECT_EQ(Send(100), (std::vector<uint32_t>{}));
}

}  // namespace
}  // namespace pollux::transport
