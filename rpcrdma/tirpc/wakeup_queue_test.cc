#include "rpcrdma/tirpc/wakeup_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace pollux::rpcrdma::tirpc {
namespace {

std::unique_ptr<WakeupQueue<int>> MakeQueue(uint32_t capacity) {
  return WakeupQueue<int>::Make(capacity, std::make_shared<Backlog>(0));
}

bool IsReadable(int fd, int timeout_ms = 0) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&polled, 1, timeout_ms) == 1;
}

TEST(WakeupQueue, PushFailsAtTheCapacity) {
  auto queue = MakeQueue(4);
  ASSERT_NE(queue, nullptr);
  int message = 0;
  EXPECT_FALSE(queue->Pop(&message));
  for (; message < 4; ++message) EXPECT_TRUE(queue->Push(message));
  EXPECT_FALSE(queue->Push(message));
  int got = -1;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue->Pop(&got));
    EXPECT_EQ(got, i);
  }
  EXPECT_FALSE(queue->Pop(&got));
}

TEST(WakeupQueue, ThePushAfterArmMakesTheDescriptorReadable) {
  auto queue = MakeQueue(4);
  ASSERT_NE(queue, nullptr);
  EXPECT_FALSE(IsReadable(queue->fd()));
  int message = 1;
  ASSERT_TRUE(queue->Push(message));
  EXPECT_TRUE(IsReadable(queue->fd()));
  EXPECT_FALSE(queue->Arm());
  ASSERT_TRUE(queue->Pop(&message));
  EXPECT_TRUE(queue->Arm());
  EXPECT_FALSE(IsReadable(queue->fd()));
  ASSERT_TRUE(queue->Push(message));
  EXPECT_TRUE(IsReadable(queue->fd()));
}

TEST(WakeupQueue, AnnounceMakesTheDescriptorReadableWhileMessagesAreQueued) {
  auto queue = MakeQueue(4);
  ASSERT_NE(queue, nullptr);
  EXPECT_TRUE(queue->Arm());
  int message = 1;
  ASSERT_TRUE(queue->Push(message));
  ASSERT_TRUE(queue->Push(message));
  ASSERT_TRUE(queue->Pop(&message));
  EXPECT_FALSE(queue->Arm());
  queue->Announce();
  EXPECT_TRUE(IsReadable(queue->fd()));
  ASSERT_TRUE(queue->Pop(&message));
  EXPECT_TRUE(queue->Arm());
  EXPECT_FALSE(IsReadable(queue->fd()));
}

TEST(WakeupQueue, QueuesOfOneConsumerShareABacklog) {
  auto one = MakeQueue(4);
  ASSERT_NE(one, nullptr);
  auto other = WakeupQueue<int>::Make(4, one->backlog());
  ASSERT_NE(other, nullptr);
  int message = 1;
  ASSERT_TRUE(one->Push(message));
  ASSERT_TRUE(other->Push(message));
  ASSERT_TRUE(other->Push(message));
  EXPECT_EQ(*one->backlog(), 3u);
  ASSERT_TRUE(other->Pop(&message));
  EXPECT_EQ(*one->backlog(), 2u);
  // With what it holds.
  other.reset();
  EXPECT_EQ(*one->backlog(), 1u);
}

TEST(WakeupQueue, NoMessageIsMissedWhileTheConsumerSleeps) {
  constexpr int kMessages = 100'000;
  auto queue = MakeQueue(64);
  ASSERT_NE(queue, nullptr);
  std::thread producer([&queue] {
    for (int i = 0; i < kMessages; ++i) {
      while (!queue->Push(i)) std::this_thread::yield();
    }
  });
  for (int next = 0; next < kMessages;) {
    int got = 0;
    while (queue->Pop(&got)) ASSERT_EQ(got, next++);
    if (next < kMessages && queue->Arm()) {
      ASSERT_TRUE(IsReadable(queue->fd(), /*timeout_ms=*/60'000));
    }
  }
  producer.join();
}

}  // namespace
}  // namespace pollux::rpcrdma::tirpc
