#include "stack/engine/link_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::engine {
namespace {

TEST(LinkWatchTest, TellsOfChangesAndCountsTheFalls) {
  TimingWheel wheel(0);
  net::LinkState link{.up = true, .speed_mbps = 1000};
  std::vector<bool> told;
  LinkWatch watch([&](bool up) { told.push_back(up); });
  EXPECT_EQ(watch.state(), net::LinkState()) << "before anyone looks";
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
  EXPECT_EQ(told, (std::vector<bool>{false, true, false, true}));
}

}  // namespace
}  // namespace pollux::engine
