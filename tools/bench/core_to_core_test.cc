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

}  // namespace
}  // namespace pollux::tools
