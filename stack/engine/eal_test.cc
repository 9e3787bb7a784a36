#include "stack/engine/eal.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "stack/engine/runtime_directory.h"

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

TEST(EalTest, HugePagesThatOthersHaveReservedAreNotUsed) {
  const std::filesystem::path pages = "/sys/kernel/mm/hugepages/hugepages-2048kB";
  size_t free_pages = 0, reserved_pages = 0;
  std::ifstream(pages / "free_hugepages") >> free_pages;
  std::ifstream(pages / "resv_hugepages") >> reserved_pages;
  constexpr size_t kPageBytes = 2 << 20;
  if (free_pages - reserved_pages < EalOptions().memory_mib / 2) GTEST_SKIP() << "needs huge pages";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto reserve_and_start = [&] {
    const size_t bytes = (free_pages - reserved_pages) * kPageBytes;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT;
    // Others may have taken pages meanwhile.
    if (mmap(nullptr, bytes, PROT_READ, kFlags, -1, 0) == MAP_FAILED) _exit(0);
    _exit(InitEal().ok() ? 0 : 1);
  };
  EXPECT_EXIT(reserve_and_start(), testing::ExitedWithCode(0), "");
}

TEST(EalTest, AForkedChildThatExitsKeepsTheTelemetrySocket) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's heap may stay locked in a child of a process with threads";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  char base[] = "/tmp/plxXXXXXX";
  if (getenv("RUNTIME_DIRECTORY") == nullptr) {  // otherwise in the death test's own process
    ASSERT_NE(mkdtemp(base), nullptr);
    setenv("RUNTIME_DIRECTORY", base, 1);
  }
  const auto start_and_fork = [] {
    if (!InitEal({.telemetry = true, .file_prefix = "forks"}).ok()) _exit(1);
    const pid_t child = fork();
    if (child == 0) exit(0);
    waitpid(child, nullptr, 0);
    exit(std::filesystem::exists(RuntimeDirectory() + "/forks/" + kTelemetrySocket) ? 0 : 2);
  };
  EXPECT_EXIT(start_and_fork(), testing::ExitedWithCode(0), "");
  unsetenv("RUNTIME_DIRECTORY");
  std::filesystem::remove_all(base);
}

// Whoever connects to a memif port or to telemetry and closes at once would end the process.
TEST(EalTest, ItsThreadsBlockAllSignalsThatTheyDoNotRaise) {
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
      for (const int number : {SIGBUS, SIGSEGV}) {
        EXPECT_EQ(blocked & (uint64_t{1} << (number - 1)), 0u) << name << ", " << number;
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
