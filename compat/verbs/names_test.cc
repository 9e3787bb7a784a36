#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

// Of rdma-core 56; the headers of rdma-core 44 do not have it.
extern "C" const char* ibv_wr_opcode_str(ibv_wr_opcode opcode);

namespace pollux::compat {
namespace {

TEST(Names, NamesMatchRdmaCore) {
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
  EXPECT_STREQ(ibv_wr_opcode_str(IBV_WR_DRIVER1), "driver1");
  EXPECT_STREQ(ibv_wr_opcode_str(IBV_WR_ATOMIC_WRITE), "atomic-write");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_QP_LAST_WQE_REACHED), "last WQE reached");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_RNIC), "iWARP NIC");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
}

TEST(Names, UnknownValuesAreCalledUnknown) {
  EXPECT_STREQ(ibv_wr_opcode_str(static_cast<ibv_wr_opcode>(12)), "unknown");
  for (const int value : {-1, 99}) {
    EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(value)), "unknown");
    EXPECT_STREQ(ibv_wr_opcode_str(static_cast<ibv_wr_opcode>(value)), "unknown");
    EXPECT_STREQ(ibv_event_type_str(static_cast<ibv_event_type>(value)), "unknown");
    EXPECT_STREQ(ibv_port_state_str(static_cast<ibv_port_state>(value)), "unknown");
    EXPECT_STREQ(ibv_node_type_str(static_cast<ibv_node_type>(value)), "unknown");
    EXPECT_STREQ(rdma_event_str(static_cast<rdma_cm_event_type>(value)), "UNKNOWN EVENT");
  }
}

TEST(Names, RatesConvertToMultiplesAndMbps) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_30_GBPS), 12);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_1200_GBPS), 480);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1) << "is 103.125";
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
  EXPECT_EQ(mult_to_ibv_rate(20), IBV_RATE_50_GBPS);
  EXPECT_EQ(mult_to_ibv_rate(40), IBV_RATE_MAX);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_800_GBPS), 850000);
  EXPECT_EQ(mbps_to_ibv_rate(28125), IBV_RATE_28_GBPS);
  EXPECT_EQ(mbps_to_ibv_rate(28126), IBV_RATE_MAX);
}

}  // namespace
}  // namespace pollux::compat
