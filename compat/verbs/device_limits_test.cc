// What the device reports of itself and grants.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "compat/runtime/settings.h"

namespace pollux::compat {
namespace {

constexpr char kPort[] = "port=net_ring0\naddress=192.0.2.1/24\nmemory=128\n";

class DeviceLimitsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv(kSettingsVariable, kPort, 1); }
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
  }
  void TearDown() override { EXPECT_EQ(ibv_close_device(context_), 0); }
  ibv_context* context_ = nullptr;
};

TEST_F(DeviceLimitsTest, TheExtendedQueryAgreesWithThePlainOne) {
  ibv_device_attr plain{};
  ASSERT_EQ(ibv_query_device(context_, &plain), 0);
  ibv_device_attr_ex extended;
  std::memset(&extended, 0xFF, sizeof extended);
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &extended), 0);
  constexpr size_t kBytes = offsetof(ibv_device_attr, phys_port_cnt) + 1;  // padding comes after
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &plain, kBytes), 0);
  // In no flag of the plain one.
  constexpr uint64_t kFlushGlobal = uint64_t{1} << 38, kAtomicWrite = uint64_t{1} << 40;
  EXPECT_EQ(extended.device_cap_flags_ex, plain.device_cap_flags | kFlushGlobal | kAtomicWrite);
  EXPECT_EQ(extended.phys_port_cnt_ex, plain.phys_port_cnt);
  EXPECT_EQ(extended.comp_mask, 0u);
  EXPECT_EQ(extended.odp_caps.general_caps, 0u);
  EXPECT_EQ(extended.completion_timestamp_mask, 0u);
  ibv_query_device_ex_input input{};
  EXPECT_EQ(ibv_query_device_ex(context_, &input, &extended), 0);
  input.comp_mask = 1;
  EXPECT_EQ(ibv_query_device_ex(context_, &input, &extended), EINVAL);
}

// libfabric asks for 262,144 entries by default.
TEST_F(DeviceLimitsTest, CompletionQueuesHaveTheMaximumLengthOfAdapters) {
  constexpr int kMaxEntries = 4'194'304;
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_EQ(device.max_cqe, kMaxEntries);
  ibv_cq* cq = ibv_create_cq(context_, kMaxEntries, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr) << std::strerror(errno);
  EXPECT_EQ(cq->cqe, kMaxEntries);
  EXPECT_EQ(ibv_resize_cq(cq, 1), 0);
  EXPECT_EQ(ibv_resize_cq(cq, kMaxEntries + 1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq, kMaxEntries), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(ibv_create_cq(context_, kMaxEntries + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "pollux: completion queue of 4194305 entries asked for; 1 to 4194304 are allowed; "
            "libfabric asks for fewer entries if FI_UNIVERSE_SIZE is smaller (256 by default)\n");
}

TEST_F(DeviceLimitsTest, CompletionQueuesThatIgnoreOverrunsAreNotSupported) {
  ibv_cq_init_attr_ex init{};
  init.cqe = 1;
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  EXPECT_EQ(ibv_create_cq_ex(context_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &init);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// Before any other failure to create a queue pair in this process: the line comes once.
TEST_F(DeviceLimitsTest, AQueuePairThatIsTooLargeIsReportedOnce) {
  ibv_pd* pd = ibv_alloc_pd(context_);
  ibv_cq* cq = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  ASSERT_TRUE(pd != nullptr && cq != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  const auto refusal = [&](const ibv_qp_cap& cap) {
    init.cap = cap;
    testing::internal::CaptureStderr();
    EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(refusal({.max_inline_data = 513}), "") << "libfabric tries it";
  EXPECT_EQ(refusal({.max_send_wr = 16'385, .max_send_sge = 1}),
            "pollux: queue pair: 16385 send and 0 receive requests, 1 and 0 elements, 16 inline "
            "bytes asked for; at most 16384 requests, 32 elements, 512 bytes\n");
  EXPECT_EQ(refusal({.max_recv_sge = 33}), "");
  EXPECT_EQ(refusal({.max_recv_wr = 1'000'000}), "");
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// As ibv_create_qp(3) says.
TEST_F(DeviceLimitsTest, TheReceivesOfAQueuePairWithASharedReceiveQueueAreIgnored) {
  ibv_pd* pd = ibv_alloc_pd(context_);
  ibv_cq* cq = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  ibv_srq_init_attr shared{};
  shared.attr.max_wr = shared.attr.max_sge = 1;
  ibv_srq* srq = ibv_create_srq(pd, &shared);
  ASSERT_TRUE(pd != nullptr && cq != nullptr && srq != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.srq = srq;
  init.cap.max_recv_wr = init.cap.max_recv_sge = 1'000'000;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr) << std::strerror(errno);
  EXPECT_EQ(init.cap.max_recv_wr, 0u);
  EXPECT_EQ(init.cap.max_recv_sge, 0u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
}  // namespace pollux::compat
