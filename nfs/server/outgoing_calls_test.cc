#include "nfs/server/outgoing_calls.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace pollux::nfs {
namespace {

TEST(OutgoingCallsTest, InTheirOrder) {
  std::vector<int> made;
  std::promise<void> last;
  OutgoingCalls calls;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(calls.Post({}, [&made, i] { made.push_back(i); }));
  }
  EXPECT_TRUE(calls.Post({}, [&last] { last.set_value(); }));
  last.get_future().wait();
  EXPECT_EQ(made, (std::vector{0, 1, 2}));
}

TEST(OutgoingCallsTest, SoManyWaitOfAHostAndOfAll) {
  std::promise<void> begun, answer;
  int made = 0;
  {
    OutgoingCalls calls;
    ASSERT_TRUE(calls.Post({}, [&begun, answered = answer.get_future()] {
      begun.set_value();
      answered.wait();
    }));
    begun.get_future().wait();
    for (size_t i = 0; i < OutgoingCalls::kMaxWaiting; ++i) {
      const Gid host = Gid::FromIpv4(static_cast<uint32_t>(i / OutgoingCalls::kMaxWaitingOfHost));
      ASSERT_TRUE(calls.Post(host, [&made] { ++made; }));
      if (i + 1 == OutgoingCalls::kMaxWaitingOfHost) {
        EXPECT_FALSE(calls.Post(host, [&made] { ++made; }));
      }
    }
    EXPECT_FALSE(calls.Post(Gid::FromIpv4(1000), [&made] { ++made; }));
    answer.set_value();
    // Whatever of them is made before the end.
  }
  EXPECT_LE(made, static_cast<int>(OutgoingCalls::kMaxWaiting));
}

}  // namespace
}  // namespace pollux::nfs
