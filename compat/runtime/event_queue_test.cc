#include "compat/runtime/event_queue.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "stack/base/thread_state_for_test.h"

namespace pollux::compat {
namespace {

bool IsReadable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, 0) == 1;
}

constexpr auto kNothing = [](int) {};

TEST(EventQueue, DescriptorIsReadableWhileAnEventWaits) {
  EventQueue<int> queue;
  ASSERT_GE(queue.fd(), 0);
  EXPECT_FALSE(IsReadable(queue.fd()));
  queue.Push(1);
  queue.Push(2);
  int event = 0;
  ASSERT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_EQ(event, 1);
  EXPECT_TRUE(IsReadable(queue.fd()));
  ASSERT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_EQ(event, 2);
  EXPECT_FALSE(IsReadable(queue.fd()));
}

TEST(EventQueue, WithoutADescriptorTakeFails) {
  EventQueue<int> queue(kNullWaiter);
  EXPECT_LT(queue.fd(), 0);
  queue.Push(1);
  queue.Push(2);
  int event = 0;
  EXPECT_EQ(queue.Take(&event, kNothing), EBADF);
  int removed = 0;
  queue.RemoveIf([&](int) { return ++removed > 0; });
  EXPECT_EQ(removed, 2);
}

TEST(EventQueue, LookAtOldestKeepsTheEvent) {
  EventQueue<int> queue;
  const auto is_one = [](int event) { return event == 1; };
  EXPECT_FALSE(queue.LookAtOldest([](int) { return true; }));
  queue.Push(1);
  queue.Push(2);
  EXPECT_TRUE(queue.LookAtOldest(is_one));
  EXPECT_TRUE(queue.LookAtOldest(is_one)) << "it stays";
  int event = 0;
  ASSERT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_FALSE(queue.LookAtOldest(is_one));
}

TEST(EventQueue, TellAgainWakesAnEdgeTriggeredWaiter) {
  EventQueue<int> queue;
  queue.TellAgain();
  EXPECT_FALSE(IsReadable(queue.fd())) << "there is no event";
  const int changes = epoll_create1(EPOLL_CLOEXEC);
  epoll_event change{.events = EPOLLIN | EPOLLET, .data = {}};
  ASSERT_EQ(epoll_ctl(changes, EPOLL_CTL_ADD, queue.fd(), &change), 0);
  queue.Push(1);
  EXPECT_EQ(epoll_wait(changes, &change, 1, 0), 1);
  EXPECT_EQ(epoll_wait(changes, &change, 1, 0), 0);
  queue.TellAgain();
  EXPECT_EQ(epoll_wait(changes, &change, 1, 0), 1);
  close(changes);
  int event = 0;
  ASSERT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_FALSE(IsReadable(queue.fd())) << "it is one event still";
}

TEST(EventQueue, TakeFromANonBlockingDescriptorReturnsEagain) {
  EventQueue<int> queue;
  ASSERT_EQ(fcntl(queue.fd(), F_SETFL, O_NONBLOCK), 0);
  int event = 0;
  EXPECT_EQ(queue.Take(&event, kNothing), EAGAIN);
  queue.Push(7);
  EXPECT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_EQ(event, 7);
}

TEST(EventQueue, PushWakesAWaitingThread) {
  EventQueue<int> queue;
  int event = 0;
  std::thread sleeper([&] { EXPECT_EQ(queue.Take(&event, kNothing), 0); });
  queue.Push(3);
  sleeper.join();
  EXPECT_EQ(event, 3);
}

TEST(EventQueue, AThreadThatStartsToWaitCanBeCancelled) {
  EventQueue<int> queue;
  std::atomic<bool> begun{false};
  std::thread sleeper([&] {
    begun = true;
    int event = 0;
    queue.Take(&event, kNothing);
  });
  while (!begun) std::this_thread::yield();
  ASSERT_EQ(pthread_cancel(sleeper.native_handle()), 0);
  sleeper.join();
  int event = 0;
  queue.Push(5);
  ASSERT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_EQ(event, 5);
}

TEST(EventQueue, ASleepingThreadCanBeCancelled) {
  EventQueue<int> queue;
  std::atomic<pid_t> id = 0;
  std::thread sleeper([&] {
    id = gettid();
    int event = 0;
    queue.Take(&event, kNothing);
    ADD_FAILURE() << "it is awake";
  });
  AwaitSleepOf(id);
  ASSERT_EQ(pthread_cancel(sleeper.native_handle()), 0);
  sleeper.join();
  queue.Push(5);
  int event = 0;
  ASSERT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_EQ(event, 5);
}

TEST(EventQueue, RemoveIfKeepsOtherEvents) {
  EventQueue<int> queue;
  for (int i = 0; i < 5; ++i) queue.Push(i);
  queue.RemoveIf([](int event) { return event != 3; });
  int event = 0;
  ASSERT_EQ(queue.Take(&event, kNothing), 0);
  EXPECT_EQ(event, 3);
  EXPECT_FALSE(IsReadable(queue.fd()));
}

}  // namespace
}  // namespace pollux::compat
