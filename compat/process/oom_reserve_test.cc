// A program whose memory runs out: the documented error, and everything else still works.
#include "compat/process/oom_reserve.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <vector>

#include "compat/runtime/settings.h"

namespace pollux::compat {
namespace {

constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";
constexpr rlim_t kRoomBytes = 96 << 20;

// While it lives the process may map so much more than it has mapped before.
class Limit {
 public:
  explicit Limit(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes,
                       before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~Limit() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  rlimit before_{};
};

class OomReserveTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers map more than any limit allows, and end where they cannot";
#endif
    setenv(kSettingsVariable, kPort, 1);
    ibv_device** list = ibv_get_device_list(nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
    ASSERT_TRUE(pd_ != nullptr && cq_ != nullptr);
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
  ibv_qp* MakeQp() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 4096,
                .max_recv_wr = 4096,
                .max_send_sge = 16,
                .max_recv_sge = 16,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    return ibv_create_qp(pd_, &init);
  }
  ibv_cq* MakeCq() { return ibv_create_cq(context_, 1 << 16, nullptr, nullptr, 0); }
  ibv_srq* MakeSrq() {
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 16384, .max_sge = 16, .srq_limit = 0};
    return ibv_create_srq(pd_, &init);
  }
  ibv_mr* MakeMr() { return ibv_reg_mr(pd_, &byte_, 1, IBV_ACCESS_LOCAL_WRITE); }
  // As many as there is memory for.
  template <class Object>
  static std::vector<Object*> MakeAll(const std::function<Object*()>& make) {
    std::vector<Object*> made;
    made.reserve(kMax);
    const Limit limit(kRoomBytes);
    while (made.size() < kMax) {
      Object* object = make();
      if (object == nullptr) break;
      made.push_back(object);
    }
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(make(), nullptr);
    return made;
  }
  // And all again, once they have gone.
  template <class Object>
  static void MakeAllTwice(const std::function<Object*()>& make, int (*destroy)(Object*)) {
    const std::vector<Object*> made = MakeAll(make);
    EXPECT_GT(made.size(), 2u);
    EXPECT_LT(made.size(), kMax);
    for (Object* object : made) EXPECT_EQ(destroy(object), 0);
    Object* object = make();
    EXPECT_TRUE(object != nullptr && destroy(object) == 0);
  }

  static constexpr size_t kMax = 1000;
  char byte_ = 0;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

TEST_F(OomReserveTest, ALongCompletionQueueIsRefusedWithAMessage) {
  testing::internal::CaptureStderr();
  {
    const Limit limit(kRoomBytes);
    EXPECT_EQ(ibv_create_cq(context_, 1 << 22, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "pollux: completion queue of 4194304 entries: no memory for 201326592 bytes; "
            "libfabric asks for fewer entries if FI_UNIVERSE_SIZE is smaller (256 by default)\n");
}

TEST_F(OomReserveTest, QueuePairsCanBeCreatedAgainAfterMemoryRanOut) {
  MakeAllTwice<ibv_qp>([this] { return MakeQp(); }, ibv_destroy_qp);
}

TEST_F(OomReserveTest, CompletionQueuesCanBeCreatedAgainAfterMemoryRanOut) {
  MakeAllTwice<ibv_cq>([this] { return MakeCq(); }, ibv_destroy_cq);
}

TEST_F(OomReserveTest, SharedReceiveQueuesCanBeCreatedAgainAfterMemoryRanOut) {
  MakeAllTwice<ibv_srq>([this] { return MakeSrq(); }, ibv_destroy_srq);
}

TEST_F(OomReserveTest, AFailedResizeKeepsTheQueue) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd_, &init);
  ASSERT_NE(srq, nullptr);
  std::vector<ibv_cq*> fill;
  fill.reserve(kMax);
  {
    const Limit limit(0);
    // Takes what earlier tests have left in the heap.
    while (fill.size() < kMax) {
      ibv_cq* const cq = MakeCq();
      if (cq == nullptr) break;
      fill.push_back(cq);
    }
    ibv_srq_attr attr{};
    attr.max_wr = 16384;
    EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), ENOMEM);
    EXPECT_EQ(ibv_resize_cq(cq_, 1 << 16), ENOMEM);
  }
  for (ibv_cq* cq : fill) EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(cq_->cqe, 1);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// Small things are made of what the heap has left, and of what is kept back: until that has gone,
// and no further.
TEST_F(OomReserveTest, SmallObjectsFailWithEnomem) {
  std::vector<ibv_mr*> regions;
  regions.reserve(1 << 20);
  rdma_event_channel* channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_cm_id* id = nullptr;
  {
    const Limit limit(0);
    ibv_mr* made = nullptr;
    while (regions.size() < regions.capacity() && (made = MakeMr()) != nullptr) {
      regions.push_back(made);
    }
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), -1);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(ibv_alloc_pd(context_), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(ibv_create_comp_channel(context_), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  for (ibv_mr* region : regions) EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(channel);
}

// Building works with what was taken when the queue pair was made, whatever it builds.
TEST_F(OomReserveTest, BuildingWorkRequestsAllocatesNoMemory) {
  constexpr uint32_t kRequests = 4096;
  constexpr uint32_t kElements = 16;
  constexpr uint32_t kInlineBytes = 512;
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = kRequests,
              .max_recv_wr = 1,
              .max_send_sge = kElements,
              .max_recv_sge = 1,
              .max_inline_data = kInlineBytes};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd_;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_ex* const builder = ibv_qp_to_qp_ex(qp);
  std::vector<ibv_mr*> regions;
  regions.reserve(1 << 20);
  {
    const Limit limit(0);
    for (ibv_mr* made = nullptr; (made = MakeMr()) != nullptr;) regions.push_back(made);
    std::array<char, kInlineBytes> text{};
    const std::array<ibv_sge, kElements> elements{};
    ibv_wr_start(builder);
    for (uint32_t i = 0; i < kRequests; i += 2) {
      ibv_wr_send(builder);
      ibv_wr_set_sge_list(builder, elements.size(), elements.data());
      ibv_wr_send(builder);
      ibv_wr_set_inline_data(builder, text.data(), text.size());
    }
    EXPECT_EQ(ibv_wr_complete(builder), EINVAL) << "in RESET";
    ibv_wr_start(builder);
    for (uint32_t i = 0; i <= kRequests; ++i) ibv_wr_send(builder);
    EXPECT_EQ(ibv_wr_complete(builder), ENOMEM);
  }
  for (ibv_mr* region : regions) EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

[[gnu::noinline]] void LeaveMidway(jmp_buf& there) {
  const MemoryFor memory(1);
  if (memory) longjmp(there, 1);
}

// What other calls leave where its frame was.
[[gnu::noinline]] void OverwriteStack() {
  volatile char frames[1 << 14];
  for (volatile char& byte : frames) byte = 0x5A;
}

// As a handler of signals does that interrupts a call for which it is too long.
TEST_F(OomReserveTest, ACallMayBeLeftByLongjmp) {
  jmp_buf there;
  volatile size_t left = 2 * MemoryFor::kMaxWithin;
  while (left > 0) {
    left = left - 1;
    if (setjmp(there) == 0) LeaveMidway(there);
    OverwriteStack();
  }
  MakeAllTwice<ibv_cq>([this] { return MakeCq(); }, ibv_destroy_cq);
}

TEST_F(OomReserveTest, CallsMayBeNested) {
  const MemoryFor first(1);
  for (int twice = 0; twice < 2; ++twice) {
    const MemoryFor second(1), third(1), fourth(1), fifth(1), sixth(1);
    EXPECT_TRUE(first && second && third && fourth && fifth && sixth);
  }
  MakeAllTwice<ibv_cq>([this] { return MakeCq(); }, ibv_destroy_cq);
}

// More than there is anywhere, for nobody.
void* AskForTooMuch() {
  volatile size_t bytes = size_t{1} << 60;
  return ::operator new(bytes);
}

// It may free something, exit, or call what waits for the end of the call that it interrupts.
TEST(OomReserve, TheNewHandlerOfTheProgramIsCalledUnlessTheThreadDrivesAWorker) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an operator new of their own";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr int kCalled = 7;
  const auto ask = [](bool (*drives)()) {
    std::set_new_handler([] { _exit(kCalled); });
    KeepOomReserve(drives);
    _exit(AskForTooMuch() != nullptr);
  };
  EXPECT_EXIT(ask([] { return false; }), testing::ExitedWithCode(kCalled), "");
  EXPECT_EXIT(ask([] { return true; }), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace pollux::compat
