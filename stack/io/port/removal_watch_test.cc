#include "stack/io/port/removal_watch.h"

#include <gtest/gtest.h>
#include <rte_dev.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "stack/io/eal_for_test.h"

namespace pollux::io {
namespace {

constexpr char kAddress[] = "0000:03:00.0", kOther[] = "0000:04:00.0";

TEST(RemovalWatchTest, ARemovalOfTheDeviceIsNoticed) {
  InitEalForTest();
  RemovalWatch watch(kAddress);
  rte_dev_event_callback_process(kOther, RTE_DEV_EVENT_REMOVE);
  rte_dev_event_callback_process(kAddress, RTE_DEV_EVENT_ADD);
  EXPECT_FALSE(watch.removed());
  rte_dev_event_callback_process(kAddress, RTE_DEV_EVENT_REMOVE);
  EXPECT_TRUE(watch.removed());
}

TEST(RemovalWatchTest, EventsAfterItsEndDoNotTouchIt) {
  InitEalForTest();
  alignas(RemovalWatch) std::array<std::byte, sizeof(RemovalWatch)> memory;
  std::destroy_at(new (memory.data()) RemovalWatch(kAddress));
  memory.fill(std::byte{0x5A});
  rte_dev_event_callback_process(kAddress, RTE_DEV_EVENT_REMOVE);
  EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0x5A}; }));
}

}  // namespace
}  // namespace pollux::io
