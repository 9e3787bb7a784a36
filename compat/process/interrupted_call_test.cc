// What a signal handler may do that has interrupted a call of the verbs, which nobody completes.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "compat/runtime/settings.h"

namespace pollux::compat {
namespace {

// A port whose frames nobody takes.
constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";

enum ExitCode : int { kNoPort = 2, kNotInterrupted = 3, kReported = 7, kEnded = 8, kForked = 9 };

constexpr unsigned kTimeoutS = 60;  // of a child that waits for what nobody gives back

class InterruptedCallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv(kSettingsVariable, kPort, 1);
  }
  // In the process that is to end: opens the port and copies inline data from where there is none,
  // with `handler` for the signal.
  static void CrashInACall(void (*handler)(int)) {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) _exit(kNoPort);
    ibv_context* context = ibv_open_device(list[0]);
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
    init.cap.max_send_wr = init.cap.max_send_sge = 1;
    init.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(pd, &init);
    if (qp == nullptr) _exit(kNoPort);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (ibv_modify_qp(qp, &attr, kInit) != 0) _exit(kNoPort);
    attr.qp_state = IBV_QPS_ERR;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0) _exit(kNoPort);
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(SIGSEGV, &action, nullptr);
    ibv_sge nowhere{.addr = 8, .length = 8, .lkey = 0};
    ibv_send_wr send{};
    send.sg_list = &nowhere;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_INLINE;
    ibv_send_wr* bad = nullptr;
    ibv_post_send(qp, &send, &bad);
    _exit(kNotInterrupted);
  }
};

// As reporters of crashes do.
TEST_F(InterruptedCallTest, ASignalHandlerMayForkAndExitDuringACall) {
  const auto crash = [] {
    CrashInACall([](int) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
      std::exit(kReported);
    });
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(kReported), "");
}

// And its child has what it has inherited to itself.
TEST_F(InterruptedCallTest, ForkWorksWhileAThreadIsStuckInACall) {
  const auto fork_and_end = [] {
    static std::atomic<bool> interrupted{false};
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) _exit(kNoPort);
    ibv_pd* pd = ibv_alloc_pd(ibv_open_device(list[0]));
    std::thread([] {
      CrashInACall([](int) {
        interrupted = true;
        while (true) pause();
      });
    }).detach();
    while (!interrupted) std::this_thread::yield();
    const pid_t child = fork();
    if (child == 0) {
      alarm(kTimeoutS);
      _exit(ibv_dealloc_pd(pd));
    }
    int status = -1;
    waitpid(child, &status, 0);
    _exit(status == 0 ? kForked : kReported);
  };
  EXPECT_EXIT(fork_and_end(), testing::ExitedWithCode(kForked), "");
}

// As it does, too, when a signal comes in the moment in which a call begins or ends.
TEST_F(InterruptedCallTest, ExitWorksWhileAThreadIsStuckInACall) {
  const auto end = [] {
    static std::atomic<bool> interrupted{false};
    std::thread([] {
      CrashInACall([](int) {
        interrupted = true;
        while (true) pause();
      });
    }).detach();
    while (!interrupted) std::this_thread::yield();
    std::exit(kEnded);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(kEnded), "");
}

// As after a read(2) of what libibverbs waits for: a timer of signal(3) does not end it.
TEST(InterruptedWaitTest, ContinuesAfterSaRestartHandlers) {
  setenv(kSettingsVariable, kPort, 1);
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_TRUE(list != nullptr && list[0] != nullptr);
  ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ASSERT_NE(context, nullptr);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* cq = ibv_create_cq(context, 1, nullptr, channel, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap.max_recv_wr = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, kInit), 0);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  std::thread waits([&] {
    ibv_cq* announced = nullptr;
    void* user = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &announced, &user), 0);
    EXPECT_EQ(announced, cq);
    ibv_ack_cq_events(announced, 1);
  });
  for (int i = 0; i < 1000; ++i) {
    pthread_kill(waits.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  waits.join();
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
}  // namespace pollux::compat
