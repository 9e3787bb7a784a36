#include "stack/engine/loop/link_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::engine {
namespace {

TEST(LinkWatchTest, ReportsLinkChangesAndCountsLinkDowns) {
  TimingWheel wheel(0);
  io::LinkState link{.up = true, .speed_mbps = 1000};
  std::vector<ibv_event_type> told;
  LinkWatch watch([&](ibv_event_type event) { told.push_back(event); });
  EXPECT_EQ(watch.state(), io::LinkState()) << "before anyone looks";
  uint64_t now_ns = 0;
  watch.Start(&wheel, now_ns, [&] { return link; });
  EXPECT_EQ(watch.state(), link);
  const auto wait = [&] { wheel.Advance(now_ns += 2 * LinkWatch::kIntervalNs); };
  wait();
  EXPECT_TRUE(told.empty());
  for (int round = 1; round <= 2; ++round) {
    link = {.up = false};
    wait();
    wait();
    EXPECT_EQ(watch.downed(), static_cast<uint64_t>(round));
    EXPECT_FALSE(watch.state().up);
    link = {.up = true, .speed_mbps = 2500};
    wait();
    EXPECT_EQ(watch.state(), link);
  }
  EXPECT_EQ(told, (std::vector<ibv_event_type>{IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE,
                                               IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE}));
}

TEST(LinkWatchTest, ReportsARemovedInterfaceOnce) {
  TimingWheel wheel(0);
  io::LinkState link;
  std::vector<ibv_event_type> told;
  LinkWatch watch([&](ibv_event_type event) { told.push_back(event); });
  uint64_t now_ns = 0;
  watch.Start(&wheel, now_ns, [&] { return link; });
  link = {.up = false, .gone = true};
  for (int i = 0; i < 3; ++i) wheel.Advance(now_ns += 2 * LinkWatch::kIntervalNs);
  EXPECT_EQ(told, (std::vector<ibv_event_type>{IBV_EVENT_PORT_ERR, IBV_EVENT_DEVICE_FATAL}));
}

}  // namespace
}  // namespace pollux::engine
