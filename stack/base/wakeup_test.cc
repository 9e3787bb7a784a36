#include "stack/base/wakeup.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(WakeupTest, IsAwakeUntilItSleeps) {
  Wakeup wakeup;
  EXPECT_TRUE(wakeup.awake());
  wakeup.Sleep();
  EXPECT_FALSE(wakeup.awake());
  wakeup.Wake();
  EXPECT_TRUE(wakeup.awake());
}

TEST(WakeupTest, WakingAPartWakesTheWhole) {
  Wakeup poller_list;
  Wakeup whole;
  whole.JoinWhole(&poller_list);
  poller_list.Sleep();
  whole.Sleep();
  Wakeup part(&whole);
  EXPECT_TRUE(whole.awake()) << "a new part has not been polled";
  EXPECT_TRUE(poller_list.awake());
  for (Wakeup* one : {&part, &whole, &poller_list}) one->Sleep();
  part.Wake();
  EXPECT_TRUE(whole.awake());
  EXPECT_TRUE(poller_list.awake());
  part.Sleep();
  EXPECT_TRUE(whole.awake());
}

TEST(WakeupTest, JoiningAWholeWakesItIfThePartIsAwake) {
  Wakeup whole;
  whole.Sleep();
  Wakeup part;
  part.Sleep();
  part.JoinWhole(&whole);
  EXPECT_FALSE(whole.awake());
  part.Wake();
  EXPECT_TRUE(whole.awake());
}

TEST(WakeupTest, WakingARemovedPartDoesNotWakeTheWhole) {
  Wakeup whole;
  Wakeup part(&whole);
  for (Wakeup* one : {&part, &whole}) one->Sleep();
  part.LeaveWhole();
  part.Wake();
  EXPECT_FALSE(whole.awake());
}

TEST(WakeupTest, AWholeKnowsWhichPartsHaveWoken) {
  Wakeup whole;
  whole.Sleep();
  Wakeup first, second;
  first.Sleep();
  first.JoinWhole(&whole, 1 << 4);
  second.JoinWhole(&whole, 1 << 5);
  EXPECT_EQ(whole.parts(), 1u << 5) << "the second was awake when it joined";
  first.Wake();
  EXPECT_EQ(whole.parts(), 1u << 5 | 1u << 4);
  whole.SleepPart(1 << 5);
  EXPECT_EQ(whole.parts(), 1u << 4);
  second.Wake();
  EXPECT_EQ(whole.parts(), 1u << 4) << "it is awake already";
  second.Sleep();
  second.Wake();
  EXPECT_EQ(whole.parts(), 1u << 5 | 1u << 4);
}

}  // namespace
}  // namespace pollux
