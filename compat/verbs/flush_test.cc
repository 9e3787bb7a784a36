// FLUSH as programs of rdma-core 45 and later ask for it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "compat/runtime/settings.h"
#include "compat/verbs/reliable_qp_for_test.h"

namespace pollux::compat {
namespace {

// Names of rdma-core 45, with its values: the headers of 44 do not have them.
constexpr int kAccessFlushGlobal = 1 << 8, kAccessFlushPersistent = 1 << 9;
constexpr uint8_t kGlobal = 1, kPersistent = 2, kRange = 0, kRegion = 1;
constexpr uint64_t kWithFlush = 1 << 11;
constexpr auto kWcFlush = static_cast<ibv_wc_opcode>(8);
constexpr auto kWrFlush = static_cast<ibv_wr_opcode>(14);
using WrFlush = void (*)(ibv_qp_ex*, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
constexpr size_t kWrFlushOffset = 352;  // in ibv_qp_ex

class FlushTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv(kSettingsVariable, "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n", 1);
  }
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    ASSERT_TRUE(pd_ != nullptr && cq_ != nullptr);
    qp_ = MakeQp();
    target_ = MakeQp();
    ASSERT_TRUE(qp_ != nullptr && target_ != nullptr);
    Connect(qp_, target_->qp_num);
    Connect(target_, qp_->qp_num);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_qp(target_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
  ibv_qp* MakeQp() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = ReliableQp(4).cap;
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = kWithFlush;
    return ibv_create_qp_ex(context_, &init);
  }
  void Connect(ibv_qp* qp, uint32_t peer) {
    ReliablePeer at_same_port = PeerAtSamePort(context_, peer);
    at_same_port.access = kAccessFlushGlobal | kAccessFlushPersistent;
    at_same_port.reads = 1;
    EXPECT_EQ(MoveToRts(qp, at_same_port), 0);
  }
  int Post(const ibv_mr& mr, size_t length, uint8_t type, uint8_t level) {
    ibv_qp_ex* const builder = ibv_qp_to_qp_ex(qp_);
    WrFlush flush;
    std::memcpy(&flush, reinterpret_cast<const std::byte*>(builder) + kWrFlushOffset, sizeof flush);
    ibv_wr_start(builder);
    builder->wr_flags = IBV_SEND_SIGNALED;
    flush(builder, mr.rkey, reinterpret_cast<uintptr_t>(mr.addr), length, type, level);
    ibv_wr_set_sge(builder, mr.lkey, reinterpret_cast<uintptr_t>(mr.addr), 1);  // not used
    return ibv_wr_complete(builder);
  }
  ibv_wc AwaitCompletion() {
    ibv_wc wc{};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
    }
    return wc;
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp *qp_ = nullptr, *target_ = nullptr;
  uint8_t memory_[64] = {};
};

TEST_F(FlushTest, ARangeAndAWholeRegionAreFlushed) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory_, sizeof memory_, kAccessFlushGlobal);
  ASSERT_NE(mr, nullptr);
  for (const uint8_t level : {kRange, kRegion}) {
    ASSERT_EQ(Post(*mr, level == kRange ? sizeof memory_ : 0, kGlobal, level), 0);
    const ibv_wc wc = AwaitCompletion();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, kWcFlush);
  }
  EXPECT_EQ(Post(*mr, sizeof memory_, 0, kRange), EINVAL);
  EXPECT_EQ(Post(*mr, sizeof memory_, kGlobal, 2), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(FlushTest, ARegionWithoutTheRightIsRefused) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory_, sizeof memory_, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(Post(*mr, sizeof memory_, kGlobal, kRange), 0);
  EXPECT_EQ(AwaitCompletion().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// As rxe where the memory is not persistent.
TEST_F(FlushTest, NoMemoryIsPersistent) {
  EXPECT_EQ(ibv_reg_mr(pd_, memory_, sizeof memory_, kAccessFlushPersistent), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_mr* mr = ibv_reg_mr(pd_, memory_, sizeof memory_, kAccessFlushGlobal);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(Post(*mr, sizeof memory_, kPersistent, kRange), 0);
  EXPECT_EQ(AwaitCompletion().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// ibv_send_wr has no members for the length and the kind of a FLUSH.
TEST_F(FlushTest, PostSendDoesNotTakeOne) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = kWrFlush;
  EXPECT_EQ(ibv_post_send(qp_, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
}

}  // namespace
}  // namespace pollux::compat
