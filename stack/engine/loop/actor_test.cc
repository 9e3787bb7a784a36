#include "stack/engine/loop/actor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace pollux::engine {
namespace {

TEST(ActorTest, CallRunsInTheTargetAndItsCallbackInTheCaller) {
  Actor here, there;
  std::string answer;
  here.Call(
      there, [] { return std::make_unique<std::string>("yes"); },
      [&](std::unique_ptr<std::string> result) { answer = *result; });
  EXPECT_EQ(here.RunMailbox(), 0u);
  EXPECT_EQ(there.RunMailbox(), 1u);
  EXPECT_EQ(answer, "");
  EXPECT_EQ(here.RunMailbox(), 1u);
  EXPECT_EQ(answer, "yes");
}

TEST(ActorTest, ACallToTheSameActorRunsInTheNextPoll) {
  Actor self;
  int state = 0;
  self.Call(
      self, [&] { state = 1; }, [&] { state = 2; });
  EXPECT_EQ(state, 0);
  EXPECT_EQ(self.RunMailbox(), 1u);
  EXPECT_EQ(state, 1);
  EXPECT_EQ(self.RunMailbox(), 1u);
  EXPECT_EQ(state, 2);
}

TEST(ActorTest, AtMostTheGivenNumberOfMessagesRuns) {
  Actor actor;
  int ran = 0;
  for (int i = 0; i < 100; ++i) Actor::Post(actor, [&] { ++ran; });
  EXPECT_EQ(actor.RunMailbox(64), 64u);
  EXPECT_EQ(actor.RunMailbox(64), 36u);
  EXPECT_EQ(ran, 100);
}

TEST(ActorTest, MessagesLeftAtDestructionAreFreedAndDoNotRun) {
  auto token = std::make_shared<int>();
  bool ran = false;
  {
    Actor actor;
    for (int i = 0; i < 5; ++i) Actor::Post(actor, [token] {});
    EXPECT_EQ(actor.RunMailbox(2), 2u) << "three are taken from the mailbox by now, and not run";
    for (int i = 0; i < 4; ++i) Actor::Post(actor, [&ran, token] { ran = true; });
    EXPECT_EQ(token.use_count(), 1 + 3 + 4);
  }
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_FALSE(ran);
}

// By the owner itself: no wait, no loss, the order kept, also for what is sent while earlier ones
// run.
TEST(ActorTest, ALongMailboxNeitherBlocksNorReorders) {
  constexpr unsigned kCount = 10'000;
  Actor actor;
  std::vector<unsigned> order;
  unsigned sent = 0;
  const auto send = [&] {
    Actor::Post(actor, [&order, number = sent] { order.push_back(number); });
    ++sent;
  };
  while (sent < kCount) send();
  while (actor.RunMailbox(50) > 0) {
    if (sent < 2 * kCount) send();
  }
  ASSERT_EQ(order.size(), sent);
  for (unsigned i = 0; i < sent; ++i) ASSERT_EQ(order[i], i);
}

TEST(ActorTest, MessagesPostedByAMessageRunInTheNextPoll) {
  Actor actor;
  int ran = 0;
  Actor::Post(actor, [&] {
    ++ran;
    Actor::Post(actor, [&] { ++ran; });
  });
  EXPECT_EQ(actor.RunMailbox(), 1u);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(actor.RunMailbox(), 1u);
  EXPECT_EQ(ran, 2);
}

TEST(ActorTest, TwoActorsThatCallEachOtherDoNotDeadlock) {
  constexpr unsigned kCalls = 10'000;
  Actor a, b;
  unsigned ran = 0;
  for (unsigned i = 0; i < kCalls; ++i) {
    a.Call(
        b, [] {}, [&] { ++ran; });
    b.Call(
        a, [] {}, [&] { ++ran; });
  }
  while (a.RunMailbox() + b.RunMailbox() > 0) {
  }
  EXPECT_EQ(ran, 2 * kCalls);
}

TEST(ActorTest, MessagesOfEachSenderStayInOrder) {
  constexpr int kSenders = 3;
  constexpr int kMessages = 50'000;
  Actor actor;
  std::vector<int> next(kSenders, 0);
  bool in_order = true;
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      for (int i = 0; i < kMessages; ++i) {
        Actor::Post(actor, [&, sender, i] { in_order &= next[sender]++ == i; });
      }
    });
  }
  while (std::accumulate(next.begin(), next.end(), 0) < kSenders * kMessages) {
    if (actor.RunMailbox() == 0) std::this_thread::yield();
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_TRUE(in_order);
  EXPECT_EQ(actor.RunMailbox(), 0u);
}

}  // namespace
}  // namespace pollux::engine
