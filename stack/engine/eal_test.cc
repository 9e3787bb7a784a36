#include "stack/engine/eal.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <sched.h>

namespace pollux::engine {
namespace {

TEST(EalTest, StartsOnceAndLeavesTheThreadWhereItMayRun) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  ASSERT_TRUE(InitEal().ok()) << InitEal();
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  EXPECT_EQ(rte_lcore_count(), 1u);
  // Neither PCI nor anything else was looked for.
  EXPECT_EQ(rte_eth_dev_count_avail(), 0);
  // A second call starts nothing and says what the first did.
  EXPECT_TRUE(InitEal({.huge_pages = EalOptions::HugePages::kAlways, .memory_mib = 1 << 30}).ok());

  rte_mempool* pool = rte_mempool_create("eal_test", 63, 64, 0, 0, nullptr, nullptr, nullptr,
                                         nullptr, SOCKET_ID_ANY, 0);
  ASSERT_NE(pool, nullptr);
  rte_mempool_free(pool);
}

}  // namespace
}  // namespace pollux::engine
