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

#include "abi/settings.h"

namespace pollux::abi {
namespace {

// A port whose frames nobody takes.
constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";

class InterruptedCallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv(kSettingsVariable, kPort, 1);
  }
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = init.cap.max_send_sge = 1;
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd_, &init);
    ASSERT_NE(qp_, nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    ASSERT_EQ(ibv_modify_qp(qp_, &attr, kInit), 0);
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_STATE), 0);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
  // Copies inline data from where there is none, with `handler` for the signal.
  void CrashInACall(void (*handler)(int)) {
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
    ibv_post_send(qp_, &send, &bad);
  }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

// As reporters of crashes do.
TEST_F(InterruptedCallTest, AHandlerForksAndExits) {
  constexpr int kReported = 7;
  const auto crash = [this] {
    CrashInACall([](int) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
      std::exit(kReported);
    });
    _exit(3);
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(kReported), "");
}

// As it does, too, when a signal comes in the moment in which a call begins or ends.
TEST_F(InterruptedCallTest, TheProcessEndsThoughAThreadStaysInIt) {
  constexpr int kEnded = 7;
  const auto end = [this] {
    static std::atomic<bool> interrupted{false};
    std::thread([this] {
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

}  // namespace
}  // namespace pollux::abi
