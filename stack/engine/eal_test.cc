#include "stack/engine/eal.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <sched.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace pollux::engine {
namespace {

TEST(EalTest, StartsOnceAndKeepsTheAffinityOfTheThread) {
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

// Whoever connects to a memif port or to telemetry and closes at once would end the process.
TEST(EalTest, ItsThreadsBlockAllSignals) {
  ASSERT_TRUE(InitEal().ok());
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string line, name;
    while (std::getline(status, line)) {
      if (line.rfind("Name:\t", 0) == 0) name = line.substr(6);
      if (line.rfind("SigBlk:\t", 0) != 0 || name.rfind("eal-", 0) != 0) continue;
      ++threads;
      const uint64_t blocked = std::stoull(line.substr(8), nullptr, 16);
      for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) {
        EXPECT_NE(blocked & (uint64_t{1} << (number - 1)), 0u) << name << ", " << number;
      }
    }
  }
  EXPECT_GT(threads, 0);
  sigset_t own;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &own), 0);
  EXPECT_EQ(sigismember(&own, SIGPIPE), 0);
}

}  // namespace
}  // namespace pollux::engine
