// That hosts are looked for before datagrams and unreliable connections send to them, and the hop
// limit that packets to them get.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "compat/runtime/settings.h"
#include "compat/verbs/objects.h"

namespace {

// A port whose frames nobody takes, so that nobody answers.
constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";
constexpr int kIpv4Gid = 1;  // the link-local address comes first

class ResolvedAhTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(pollux::compat::kSettingsVariable, kPort, 1); }
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
    ASSERT_TRUE(pd_ != nullptr && cq_ != nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0) << "a handle is left";
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
  static ibv_ah_attr To(std::array<uint8_t, 4> host) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.sgid_index = kIpv4Gid;
    attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xFF;
    std::copy(host.begin(), host.end(), attr.grh.dgid.raw + 12);
    return attr;
  }
  ibv_qp* MakeQp(ibv_qp_type type) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = type;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  // From RESET; errno of the last step.
  static int MoveToRtr(ibv_qp* qp, const ibv_ah_attr& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    EXPECT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = 17;
    attr.ah_attr = peer;
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attr, mask);
  }
  // A queue pair of `type` that is ready to receive from `host`; errno of the last step.
  int Connect(ibv_qp_type type, std::array<uint8_t, 4> host) {
    ibv_qp* qp = MakeQp(type);
    const int error = MoveToRtr(qp, To(host));
    EXPECT_EQ(qp->state, error == 0 ? IBV_QPS_RTR : IBV_QPS_INIT);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    return error;
  }

  static constexpr std::array<uint8_t, 4> kSelf{192, 0, 2, 1};
  static constexpr std::array<uint8_t, 4> kNobody{192, 0, 2, 99};

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

TEST_F(ResolvedAhTest, AHostThatDoesNotAnswerIsEtimedout) {
  ibv_ah_attr attr = To(kNobody);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ibv_create_ah(pd_, &attr), nullptr);
    EXPECT_EQ(errno, ETIMEDOUT) << "as Linux";
  }
}

TEST_F(ResolvedAhTest, TheHostItselfAndGroupsNeedNoResolution) {
  for (const auto& host : {kSelf, std::array<uint8_t, 4>{239, 1, 2, 3}}) {
    ibv_ah_attr attr = To(host);
    ibv_ah* const handle = ibv_create_ah(pd_, &attr);
    ASSERT_NE(handle, nullptr);
    EXPECT_EQ(ibv_destroy_ah(handle), 0);
  }
}

TEST_F(ResolvedAhTest, UcNeedsAPeerThatAnswers) {
  EXPECT_EQ(Connect(IBV_QPT_UC, kNobody), ETIMEDOUT);
  EXPECT_EQ(Connect(IBV_QPT_UC, kSelf), 0);
}

TEST_F(ResolvedAhTest, RcResolvesItsPeerLater) { EXPECT_EQ(Connect(IBV_QPT_RC, kNobody), 0); }

TEST_F(ResolvedAhTest, HostsGetTheDefaultHopLimitAndGroupsThatOfTheProgram) {
  constexpr int kOfProgram = 1, kOfRoute = 64;
  for (const auto& [host, hop_limit] :
       {std::pair{kSelf, kOfRoute}, {std::array<uint8_t, 4>{239, 1, 2, 3}, kOfProgram}}) {
    ibv_ah_attr attr = To(host);
    attr.grh.hop_limit = kOfProgram;
    ibv_ah* const handle = ibv_create_ah(pd_, &attr);
    ASSERT_NE(handle, nullptr);
    EXPECT_EQ(static_cast<pollux::verbs::AddressHandle*>(handle)->hop_limit, hop_limit);
    EXPECT_EQ(ibv_destroy_ah(handle), 0);
  }
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    ibv_ah_attr peer = To(kSelf);
    peer.grh.hop_limit = kOfProgram;
    ibv_qp* qp = MakeQp(type);
    ASSERT_EQ(MoveToRtr(qp, peer), 0);
    EXPECT_EQ(pollux::compat::Of(qp)->native->path.hop_limit, kOfRoute);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_AV, &init), 0);
    EXPECT_EQ(attr.ah_attr.grh.hop_limit, kOfProgram);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
}

}  // namespace
