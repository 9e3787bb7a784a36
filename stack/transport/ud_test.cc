#include "stack/transport/ud.h"

#include <gtest/gtest.h>

#include "stack/base/address.h"
#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

class UdTest : public ::testing::Test {
 protected:
  UdTest() : pair_(IBV_QPT_UD) {
    ah_.source = Gid::FromIpv4(pair_.a.address);
    ah_.destination = Gid::FromIpv4(pair_.b.address);
    ah_.link = &pair_.a.link_address;
    ah_.traffic_class = 0x20;
  }
  void Send(uint32_t length, uint32_t qkey = 0x11111111, ibv_wr_opcode opcode = IBV_WR_SEND) {
    ibv_sge sge{reinterpret_cast<uint64_t>(pair_.a.memory.data()), length, pair_.a.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.imm_data = 0x0A0B0C0D;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {.ah = &ah_, .remote_qpn = 0x222, .remote_qkey = qkey};
    EXPECT_EQ(pair_.a.endpoint->qp.PostSend(&wr, nullptr), 0);
    pair_.RunToEnd();
  }
  TestPair pair_;
  verbs::AddressHandle ah_;
};

TEST_F(UdTest, ADatagramArrivesWithItsGrh) {
  pair_.a.memory[0] = 0x5A;
  pair_.b.PostRecv(3, pair_.b.memory.data(), 40 + 100);
  Send(100);
  EXPECT_EQ(pair_.a.Poll().size(), 1u);
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].byte_len, 140u);
  EXPECT_EQ(all[0].src_qp, 0x111u);
  EXPECT_NE(all[0].wc_flags & IBV_WC_GRH, 0u);
  EXPECT_EQ(all[0].sl, 8 | 2) << "by UDP over IPv4";
  EXPECT_EQ(pair_.b.memory[40], 0x5A);
  EXPECT_EQ(pair_.b.memory[20], 0x45);
  EXPECT_EQ(pair_.b.memory[21], 0x20);
  EXPECT_EQ(pair_.b.memory[0], 0);
}

TEST_F(UdTest, AWrongQkeyIsDroppedAndCounted) {
  pair_.b.PostRecv(3, pair_.b.memory.data(), 200);
  Send(100, 0x22222222);
  EXPECT_EQ(pair_.b.counters.drop(Drop::kBadQkey), 1u);
}

TEST_F(UdTest, ADatagramFromNoHostsAddressIsDropped) {
  uint64_t dropped = 0;
  for (const char* source : {"224.0.0.1", "255.255.255.255", "0.0.0.0"}) {
    ah_.source = ParseAddress(source).value();
    pair_.b.PostRecv(3, pair_.b.memory.data(), 200);
    Send(100);
    EXPECT_EQ(pair_.b.counters.drop(Drop::kBadAddress), ++dropped) << source;
  }
  EXPECT_TRUE(pair_.b.Poll().empty());
}

TEST_F(UdTest, HighBitSelectsTheQkeyOfTheQueuePair) {
  pair_.b.PostRecv(3, pair_.b.memory.data(), 200);
  Send(100, 0x80000005);
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
}

TEST_F(UdTest, DatagramsWithoutAFittingReceiveAreDropped) {
  Send(100);
  EXPECT_EQ(pair_.b.counters.drop(Drop::kNoReceive), 1u);
  pair_.b.PostRecv(3, pair_.b.memory.data(), 139);
  Send(100);
  EXPECT_EQ(pair_.b.counters.drop(Drop::kReceiveTooSmall), 1u);
  EXPECT_TRUE(pair_.b.Poll().empty());
}

TEST_F(UdTest, WithoutAResolverAnUnresolvedNextHopIsDropped) {
  pair_.a.link_address.Store({}, false);
  pair_.b.PostRecv(3, pair_.b.memory.data(), 200);
  Send(100);
  EXPECT_EQ(pair_.a.counters.drop(Drop::kUnresolved), 1u);
  EXPECT_EQ(pair_.a.Poll().size(), 1u) << "a datagram is complete when it is handed on";
}

TEST_F(UdTest, ADatagramDeliversImmediateData) {
  pair_.b.PostRecv(3, pair_.b.memory.data(), 200);
  Send(0, 0x11111111, IBV_WR_SEND_WITH_IMM);
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].byte_len, 40u);
  EXPECT_EQ(all[0].wc_flags, unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
  EXPECT_EQ(all[0].imm_data, 0x0A0B0C0Du);
}

// What cannot be read stops the send queue alone: datagrams still arrive.
TEST_F(UdTest, ASendErrorStopsOnlySending) {
  pair_.a.key ^= 0x100;
  Send(100);
  EXPECT_EQ(pair_.a.endpoint->qp.state(), IBV_QPS_SQE);
  std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_LOC_PROT_ERR);
  pair_.a.key ^= 0x100;
  Send(100);
  all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_WR_FLUSH_ERR);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  PollContext context = pair_.a.context(pair_.now_ns);
  ASSERT_TRUE(pair_.a.endpoint->Modify(attr, IBV_QP_STATE, context).ok());
  pair_.b.PostRecv(3, pair_.b.memory.data(), 200);
  Send(100);
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
}

}  // namespace
}  // namespace pollux::transport
