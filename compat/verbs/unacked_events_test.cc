#include "compat/verbs/unacked_events.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace pollux::compat {
namespace {

TEST(UnackedEvents, AwaitAllReturnsIfNothingWasDelivered) {
  UnackedEvents unacked_events;
  unacked_events.AwaitAll();
  unacked_events.Acknowledge(3);
  unacked_events.AwaitAll();
}

TEST(UnackedEvents, AwaitAllWaitsForTheLastAcknowledgement) {
  UnackedEvents unacked_events;
  std::atomic<bool> last{false};
  for (int i = 0; i < 3; ++i) unacked_events.Deliver();
  unacked_events.Acknowledge(2);
  std::thread acknowledger([&] {
    last = true;
    unacked_events.Acknowledge();
  });
  unacked_events.AwaitAll();
  EXPECT_TRUE(last);
  acknowledger.join();
}

}  // namespace
}  // namespace pollux::compat
