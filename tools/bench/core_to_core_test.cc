#include "tools/bench/core_to_core.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <thread>

namespace pollux::tools {
namespace {

TEST(CoreToCoreTest, TwoCpusHaveACostAndOneHasNone) {
  std::thread([] {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof usable, &usable), 0);
    EXPECT_EQ(CoreToCoreNs().has_value(), CPU_COUNT(&usable) > 1);
    EXPECT_NE(CoreToCoreNs(), 0);
    int first = 0;
    while (!CPU_ISSET(first, &usable)) ++first;
    CPU_ZERO(&usable);
    CPU_SET(first, &usable);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof usable, &usable), 0);
    EXPECT_EQ(CoreToCoreNs(), std::nullopt);
  }).join();
}

TEST(CoreToCoreTest, AbsentCpusHaveNoCost) {
  EXPECT_EQ(CoreToCoreNs({CPU_SETSIZE, 0}), std::nullopt);
  EXPECT_EQ(CoreToCoreNs({0, CPU_SETSIZE}), std::nullopt);
  EXPECT_FALSE(PinThread(-1));
}

TEST(CoreToCoreTest, ARoundWithoutEndStopsAtTheTimeLimit) {
  EXPECT_EQ(CoreToCoreNs(UsableCpus(), uint64_t{1} << 50).has_value(), UsableCpus().size() > 1);
}

TEST(CoreToCoreTest, DistanceFollowsTheMeasuredTimes) {
  EXPECT_EQ(DistanceOf({"ns", {}}), CoreDistance::kUnmeasured);
  EXPECT_EQ(DistanceOf({"ns", {110, 120}}), CoreDistance::kNear);
  EXPECT_EQ(DistanceOf({"ns", {520, 160}}), CoreDistance::kFar);
  EXPECT_EQ(DistanceOf({"ns", {110, 520, 110}}), CoreDistance::kFlipped);
  EXPECT_STREQ(DistanceName(CoreDistance::kFlipped), "now near, now far");
  EXPECT_STREQ(DistanceName(CoreDistance::kUnmeasured), "not measured");
}

}  // namespace
}  // namespace pollux::tools
