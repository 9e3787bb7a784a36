// What becomes of the port of a process that forks and starts other programs.
#include "compat/runtime/runtime.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "stack/engine/polling/clock.h"
#include "stack/engine/runtime_directory.h"
#include "stack/io/own_network_for_test.h"

namespace pollux::compat {
namespace {

constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\nfile-prefix=runtime\n";
constexpr int kChildren = 20;
constexpr unsigned kTimeoutS = 60;  // of a child that waits for what its parent alone has
constexpr int kTakesSignals = 2;

// LeakSanitizer does not work once the main thread has ended.
bool main_thread_has_ended = false;

// Whether all threads of this process but the calling one block the signal.
bool OthersBlock(int signal) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("SigBlk:\t", 0) != 0) continue;
      const uint64_t blocked = std::stoull(line.substr(8), nullptr, 16);
      if ((blocked & uint64_t{1} << (signal - 1)) == 0) return false;
    }
  }
  return true;
}

class RuntimeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv(kSettingsVariable, kPort, 1);
    // Below the length of a socket's name.
    char pattern[] = "/tmp/plxXXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    runtime_ = pattern;
    setenv("RUNTIME_DIRECTORY", pattern, 1);
    // After the exit handlers that remove the runtime's files.
    std::atexit([] {
      if (getpid() == process_) std::filesystem::remove_all(runtime_);
    });
    before_ = Descriptors();
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
  }
  static std::set<int> Descriptors() {
    std::set<int> open;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      open.insert(std::stoi(entry.path().filename()));
    }
    // The listing's own is closed by now.
    std::erase_if(open, [](int fd) { return fcntl(fd, F_GETFD) < 0; });
    return open;
  }
  // What a child does with what it has inherited, and how it ends.
  static int UseInherited(ibv_pd* pd, ibv_cq* cq, ibv_qp* qp) {
    alarm(kTimeoutS);
    int count = 1;
    ibv_free_device_list(ibv_get_device_list(&count));
    if (count != 0) return 1;
    ibv_wc completion{};
    if (ibv_poll_cq(cq, 1, &completion) != 0) return 2;
    ibv_send_wr send{};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &send, &bad) != ENODEV || bad != &send) return 5;
    if (ibv_destroy_qp(qp) != 0) return 6;
    if (ibv_destroy_cq(cq) != 0) return 3;
    if (ibv_dealloc_pd(pd) != 0) return 4;
    return 0;
  }

  static inline const pid_t process_ = getpid();
  static inline std::string runtime_;
  static inline std::set<int> before_;
  static inline ibv_context* context_ = nullptr;
};

TEST_F(RuntimeTest, AForkedChildHasACopyAndTheParentContinues) {
  ibv_pd* pd = ibv_alloc_pd(context_);
  ibv_cq* cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  ASSERT_TRUE(pd != nullptr && cq != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  std::atomic<bool> enough = false;
  std::atomic<int> polls = 0;
  std::thread poller([&] {
    ibv_wc completion{};
    while (!enough) {
      EXPECT_EQ(ibv_poll_cq(cq, 1, &completion), 0);
      ++polls;
    }
  });
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(UseInherited(pd, cq, qp));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const int before = polls;
  while (polls == before) std::this_thread::yield();
  enough = true;
  poller.join();
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// Nobody has polled between the opening and a program's first call, say rdma_resolve_addr(3).
TEST_F(RuntimeTest, TimeoutsOfACallStartWithTheCall) {
  Runtime* const runtime = *Runtime::Get();
  const engine::Clock clock;
  ScopedWorkerOwnership owned(runtime);
  const uint64_t before_ns = clock.NowNs();
  owned.manager();
  EXPECT_GE(runtime->worker().now_ns(), before_ns);
  const uint64_t later_ns = clock.NowNs();
  EXPECT_GE(owned.worker().now_ns(), later_ns);
}

TEST_F(RuntimeTest, AForkedChildLogsWhyThereIsNoDevice) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    ibv_free_device_list(ibv_get_device_list(nullptr));
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char part[256];
  for (ssize_t bytes = 0; (bytes = read(ends[0], part, sizeof part)) > 0;) {
    said.append(part, static_cast<size_t>(bytes));
  }
  close(ends[0]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_NE(said.find("open the device after the fork"), std::string::npos) << said;
}

TEST_F(RuntimeTest, ExitingChildrenKeepTheTelemetrySocket) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's heap may stay locked in a child of a process with threads";
#endif
  const std::string directory = runtime_ + "/dpdk/runtime";
  const std::string socket = directory + "/" + engine::kTelemetrySocket;
  ASSERT_TRUE(std::filesystem::exists(socket));
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) std::exit(0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(std::filesystem::exists(socket));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);
}

// As many as leave together, or half as many when a call finds completions.
TEST_F(RuntimeTest, PostsAreSentInBatches) {
  struct Turns : engine::Poller {
    bool Poll(uint64_t /*now_ns*/) override {
      ++count;
      return false;
    }
    uint32_t count = 0;
  };
  const absl::StatusOr<Runtime*> runtime = Runtime::Get();
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  Turns turns;
  ScopedWorkerOwnership owned(*runtime);
  owned.worker().AddPoller(&turns);
  // How many turns of the loop so many posts take, the call behind them included.
  const auto turns_of = [&](uint32_t posts) {
    owned.Poll();
    const uint32_t before = turns.count;
    for (uint32_t i = 0; i < posts; ++i) owned.PollAfterPost();
    owned.SendWaiting();
    return turns.count - before;
  };
  EXPECT_EQ(turns_of(0), 0u);
  EXPECT_EQ(turns_of(1), 1u) << "the first leaves at once";
  EXPECT_EQ(turns_of(HeldPosts::kPostsWaiting), 1u);
  EXPECT_EQ(turns_of(HeldPosts::kPostsWaiting + 1), 2u) << "the others have waited for the call";
  EXPECT_EQ(turns_of(HeldPosts::kPostsTogether), 2u);
  owned.worker().RemovePoller(&turns);
}

TEST_F(RuntimeTest, TheTimeOfAPollWithWorkIsItsEnd) {
  struct Work : engine::Poller {
    bool Poll(uint64_t /*now_ns*/) override {
      done_ns = clock.NowNs();
      return true;
    }
    const engine::Clock clock{};
    uint64_t done_ns = 0;
  };
  const absl::StatusOr<Runtime*> runtime = Runtime::Get();
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  Work work;
  ScopedWorkerOwnership owned(*runtime);
  owned.worker().AddPoller(&work);
  owned.Poll();
  owned.worker().RemovePoller(&work);
  EXPECT_GE(owned.activity().polled_ns(), work.done_ns);
}

TEST_F(RuntimeTest, DescriptorsAreClosedOnExec) {
  size_t added = 0;
  for (const int fd : Descriptors()) {
    if (before_.contains(fd)) continue;
    ++added;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0)
        << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
  }
  EXPECT_GT(added, 0u);
}

// Not that of the fixture, which has its telemetry.
TEST(Runtime, LogsWhyThereIsNoTelemetry) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open = [] {
    setenv(kSettingsVariable, kPort, 1);
    setenv("RUNTIME_DIRECTORY", "/dev/null", 1);
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    _exit(count);
  };
  EXPECT_EXIT(open(), testing::ExitedWithCode(1),
              "pollux: no telemetry, `pollux stat` will not find this process: ");
}

// The threads of the capture and, with the right to a tap, of the kernel path included.
TEST(Runtime, ItsThreadsTakeNoSignalsAndLetTheProgramEnd) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan has a thread of its own";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open_and_end = [] {
    std::string settings = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\ncapture=/dev/null\n";
    if (access("/dev/net/tun", R_OK | W_OK) == 0 && io::EnterOwnNetwork()) {
      settings += "kernel-path=plxruntime\n";
    }
    setenv(kSettingsVariable, settings.c_str(), 1);
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    if (count != 1) _exit(1);
    if (!OthersBlock(SIGUSR1)) _exit(kTakesSignals);
    alarm(kTimeoutS);
    main_thread_has_ended = true;
    pthread_exit(nullptr);
  };
  EXPECT_EXIT(open_and_end(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace pollux::compat

// sanitizer/lsan_interface.h asks it at the end of a process.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return pollux::compat::main_thread_has_ended; }
