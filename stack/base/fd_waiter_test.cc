#include "stack/base/fd_waiter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

#include "stack/base/thread_state_for_test.h"

namespace pollux {
namespace {

class FdWaiterTest : public testing::Test {
 protected:
  ~FdWaiterTest() override { close(fd_); }
  void MakeReadable() {
    eventfd_write(fd_, 1);
    fd_waiter_.Ring();
  }
  // With a handler of SIGUSR1 that does nothing.
  static void HandleSignals(int flags) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    action.sa_flags = flags;
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  }

  const int fd_ = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  FdWaiter fd_waiter_;
};

TEST_F(FdWaiterTest, EachEventWakesAWaitingThread) {
  constexpr int kRounds = 1000;
  std::atomic<int> taken = 0;
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([&] {
      while (taken < kRounds) {
        EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), 0);
        ++taken;
      }
    });
  }
  // They leave it readable, and then there is nobody to wake.
  MakeReadable();
  for (std::thread& thread : waiting) thread.join();
}

TEST_F(FdWaiterTest, SuccessiveEventsAreTaken) {
  constexpr int kRounds = 2000;
  std::atomic<int> taken = 0;
  std::thread waits([&] {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), 0);
      eventfd_t one;
      EXPECT_EQ(eventfd_read(fd_, &one), 0);
      taken = i + 1;
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    MakeReadable();
    while (taken <= i) std::this_thread::yield();
  }
  waits.join();
}

// Each of two events at once is for one of three: whoever takes the first, the second is not left.
TEST_F(FdWaiterTest, SeveralTakersMissNoEvent) {
  constexpr int kRounds = 3000, kTakers = 3;
  std::mutex mutex;
  std::atomic<int> taken = 0;
  std::vector<std::thread> takers;
  for (int i = 0; i < kTakers; ++i) {
    takers.emplace_back([&] {
      while (taken < 2 * kRounds) {
        EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), 0);
        const std::lock_guard lock(mutex);
        eventfd_t one;
        if (IsReadable(fd_) == 1 && eventfd_read(fd_, &one) == 0) ++taken;
      }
    });
  }
  for (int i = 1; i <= kRounds; ++i) {
    MakeReadable();
    MakeReadable();
    while (taken < 2 * i) std::this_thread::yield();
  }
  for (int i = 0; i < kTakers; ++i) MakeReadable();
  for (std::thread& taker : takers) taker.join();
}

TEST_F(FdWaiterTest, ANonBlockingDescriptorReturnsEagain) {
  ASSERT_EQ(fcntl(fd_, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), EAGAIN);
  MakeReadable();
  EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), 0);
  EXPECT_EQ(fd_waiter_.AwaitReadable(-1), EBADF);
}

TEST_F(FdWaiterTest, WaitingContinuesAfterSaRestartHandlers) {
  HandleSignals(SA_RESTART);
  std::thread waits([&] { EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), 0); });
  for (int i = 0; i < 1000; ++i) {
    pthread_kill(waits.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  MakeReadable();
  waits.join();
}

TEST_F(FdWaiterTest, OtherHandlersInterruptWithEintr) {
  HandleSignals(0);
  std::atomic<bool> over = false;
  std::thread waits([&] {
    EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), EINTR);
    over = true;
  });
  while (!over) {
    pthread_kill(waits.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  waits.join();
}

TEST_F(FdWaiterTest, AThreadThatStartsToWaitCanBeCancelled) {
  std::thread waits([&] { fd_waiter_.AwaitReadable(fd_); });
  ASSERT_EQ(pthread_cancel(waits.native_handle()), 0);
  waits.join();
  MakeReadable();
  EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), 0);
}

// Another one goes on sleeping, and is woken.
TEST_F(FdWaiterTest, ASleepingThreadCanBeCancelled) {
  std::atomic<pid_t> ids[2] = {};
  std::atomic<bool> awake = false;
  std::thread cancelled([&] {
    ids[0] = gettid();
    fd_waiter_.AwaitReadable(fd_);
    awake = true;
  });
  std::thread woken([&] {
    ids[1] = gettid();
    EXPECT_EQ(fd_waiter_.AwaitReadable(fd_), 0);
  });
  for (const std::atomic<pid_t>& id : ids) AwaitSleepOf(id);
  ASSERT_EQ(pthread_cancel(cancelled.native_handle()), 0);
  cancelled.join();
  EXPECT_FALSE(awake);
  AwaitSleepOf(ids[1]);
  MakeReadable();
  woken.join();
}

}  // namespace
}  // namespace pollux
