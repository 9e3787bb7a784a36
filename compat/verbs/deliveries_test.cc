#include "compat/verbs/deliveries.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace pollux::compat {
namespace {

TEST(Deliveries, NothingDeliveredIsNotWaitedFor) {
  Deliveries deliveries;
  deliveries.AwaitAll();
  deliveries.Acknowledge(3);
  deliveries.AwaitAll();
}

TEST(Deliveries, WaitsForTheLast) {
  Deliveries deliveries;
  std::atomic<bool> last{false};
  for (int i = 0; i < 3; ++i) deliveries.Deliver();
  deliveries.Acknowledge(2);
  std::thread acknowledger([&] {
    last = true;
    deliveries.Acknowledge();
  });
  deliveries.AwaitAll();
  EXPECT_TRUE(last);
  acknowledger.join();
}

}  // namespace
}  // namespace pollux::compat
