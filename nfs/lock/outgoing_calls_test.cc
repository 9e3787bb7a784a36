#include "nfs/lock/outgoing_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace pollux::nfs {
namespace {

const Gid kSilent = Gid::FromIpv4(1), kOther = Gid::FromIpv4(2);

// A host that is silent until it is told to answer, or that it does not.
class SilentHost {
 public:
  OutgoingCalls::Call call() {
    return [this] {
      ++called_;
      called_.notify_all();
      return answer_.get();
    };
  }
  void AwaitCalls(size_t calls) {
    for (size_t seen = called_; seen < calls; seen = called_) called_.wait(seen);
  }
  void Answer(bool answers) { promise_.set_value(answers); }

 private:
  std::promise<bool> promise_;
  std::shared_future<bool> answer_ = promise_.get_future().share();
  std::atomic<size_t> called_ = 0;
};

TEST(OutgoingCallsTest, CallsToOneHostKeepTheirOrder) {
  std::vector<int> made;
  std::promise<void> last;
  OutgoingCalls calls;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(calls.Post({}, [&made, i] {
      made.push_back(i);
      return true;
    }));
  }
  EXPECT_TRUE(calls.Post({}, [&last] {
    last.set_value();
    return true;
  }));
  last.get_future().wait();
  EXPECT_EQ(made, (std::vector{0, 1, 2}));
}

TEST(OutgoingCallsTest, ASilentHostDoesNotDelayOthers) {
  SilentHost host;
  OutgoingCalls calls;
  for (size_t i = 0; i < OutgoingCalls::kMaxWaitingOfHost; ++i) {
    ASSERT_TRUE(calls.Post(kSilent, host.call()));
  }
  std::promise<void> made;
  ASSERT_TRUE(calls.Post(kOther, [&made] {
    made.set_value();
    return true;
  }));
  made.get_future().wait();
  host.Answer(true);
  host.AwaitCalls(OutgoingCalls::kMaxWaitingOfHost);
}

TEST(OutgoingCallsTest, CallsBehindAFailedCallAreDropped) {
  SilentHost host;
  OutgoingCalls calls;
  std::atomic<int> made = 0;
  ASSERT_TRUE(calls.Post(kSilent, host.call()));
  host.AwaitCalls(1);
  for (size_t i = 0; i < OutgoingCalls::kMaxWaitingOfHost; ++i) {
    ASSERT_TRUE(calls.Post(kSilent, [&made] {
      ++made;
      return true;
    }));
  }
  EXPECT_FALSE(calls.Post(kSilent, host.call()));
  host.Answer(false);
  // There is room as soon as they are dropped.
  std::promise<void> last;
  while (!calls.Post(kSilent, [&last] {
    last.set_value();
    return true;
  })) {
    std::this_thread::yield();
  }
  last.get_future().wait();
  EXPECT_EQ(made, 0);
}

TEST(OutgoingCallsTest, WaitingCallsAreBoundedPerHostAndInTotal) {
  SilentHost hosts;
  std::atomic<size_t> made = 0;
  const auto count = [&made] {
    ++made;
    return true;
  };
  {
    OutgoingCalls calls;
    for (uint32_t i = 0; i < OutgoingCalls::kThreads; ++i) {
      ASSERT_TRUE(calls.Post(Gid::FromIpv4(2000 + i), hosts.call()));
    }
    hosts.AwaitCalls(OutgoingCalls::kThreads);
    for (size_t i = 0; i < OutgoingCalls::kMaxWaiting; ++i) {
      const Gid host = Gid::FromIpv4(static_cast<uint32_t>(i / OutgoingCalls::kMaxWaitingOfHost));
      ASSERT_TRUE(calls.Post(host, count));
      if (i + 1 == OutgoingCalls::kMaxWaitingOfHost) {
        EXPECT_FALSE(calls.Post(host, count));
      }
    }
    EXPECT_FALSE(calls.Post(Gid::FromIpv4(1000), count));
    hosts.Answer(true);
    // Whatever of them is made before the end.
  }
  EXPECT_LE(made, OutgoingCalls::kMaxWaiting);
}

}  // namespace
}  // namespace pollux::nfs
