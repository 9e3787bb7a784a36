#include "stack/io/port/driver_use.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace pollux::io {
namespace {

TEST(DriverUse, IsAwaited) {
  DriverUse::Prepare();
  DriverUse::AwaitNone();
  std::atomic<bool> waited = false;
  std::thread waits;
  {
    const DriverUse use(3);
    waits = std::thread([&waited] {
      DriverUse::AwaitNone();
      waited = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(waited);
  }
  waits.join();
  EXPECT_TRUE(waited);
}

}  // namespace
}  // namespace pollux::io
