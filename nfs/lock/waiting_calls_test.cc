#include "nfs/lock/waiting_calls.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace pollux::nfs {
namespace {

// A guard against hanging, not an expectation.
constexpr std::chrono::hours kLong{1};

TEST(WaitingCallsTest, ATakenCallIsNotDeferred) {
  bool put_off = false;
  {
    WaitingCalls calls(kLong);
    const uint64_t number = calls.Add([&] { put_off = true; });
    EXPECT_TRUE(calls.Take(number));
    EXPECT_FALSE(calls.Take(number));
    EXPECT_FALSE(calls.Take(number + 1));
    calls.Add([&] { put_off = true; });
  }
  EXPECT_FALSE(put_off);
}

TEST(WaitingCallsTest, OtherCallsAreDeferredInOrder) {
  std::promise<void> done;
  std::vector<int> order;
  uint64_t last = 0;
  WaitingCalls calls(std::chrono::milliseconds(1));
  calls.Add([&] { order.push_back(1); });
  calls.Add([&] { order.push_back(2); });
  last = calls.Add([&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_FALSE(calls.Take(last));
}

}  // namespace
}  // namespace pollux::nfs
