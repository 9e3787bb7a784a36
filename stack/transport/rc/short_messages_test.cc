// Short messages, which the requester sends in runs: what differs within a run, and what ends one.
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

class ShortMessagesTest : public ::testing::Test {
 protected:
  ShortMessagesTest() {
    pair_.hook = [this](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
      if (from_a) sent_.push_back(packet.bth);
      return PacketAction::kDeliver;
    };
    for (uint64_t i = 0; i < 128; ++i) pair_.b.PostRecv(i, pair_.b.memory.data() + i * 64, 64);
    // The requester measures a round trip before it leaves acknowledgements to the peer.
    Post(IBV_SEND_SIGNALED);
    pair_.RunToEnd();
    pair_.a.Poll();
    pair_.b.Poll();
    sent_.clear();
  }

  void Post(int flags = 0, uint32_t bytes = 64, ibv_wr_opcode opcode = IBV_WR_SEND) {
    const auto remote = reinterpret_cast<uint64_t>(pair_.b.memory.data());
    ASSERT_EQ(pair_.a.PostSend(opcode, posted_++, pair_.a.memory.data(), bytes, remote, pair_.b.key,
                               flags),
              0);
  }
  void PostWithKey(uint32_t key, uint64_t address, uint64_t wr_id) {
    ibv_sge sge{address, 64, key};
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(pair_.a.endpoint->qp.PostSend(&wr, nullptr), 0);
  }
  uint32_t Register(memory::ProtectionDomain& pd, uint8_t* memory, uint64_t length) {
    return pair_.a.regions.Register(&pd, memory, length, IBV_ACCESS_LOCAL_WRITE)->key;
  }
  // After a failure: both queue pairs from RESET to RTS.
  void Reconnect() {
    for (TestNode* node : {&pair_.a, &pair_.b}) {
      PollContext context = node->context(pair_.now_ns);
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_RESET;
      ASSERT_TRUE(node->endpoint->Modify(attr, IBV_QP_STATE, context).ok());
      node->Poll();
    }
    pair_.a.Connect(pair_.b, TestPair::DefaultAttr());
    pair_.b.Connect(pair_.a, TestPair::DefaultAttr());
    for (uint64_t i = 0; i < 8; ++i) pair_.b.PostRecv(i, pair_.b.memory.data(), 64);
  }
  // Whether the PSNs that a sent are consecutive.
  bool AllInOrder() const {
    for (size_t i = 1; i < sent_.size(); ++i) {
      if (sent_[i].psn != sent_[i - 1].psn + 1) return false;
    }
    return true;
  }

  TestPair pair_;  // PSNs begin shortly before they wrap
  std::vector<wire::Bth> sent_;
  uint64_t posted_ = 0;
};

TEST_F(ShortMessagesTest, AcknowledgementsAreRequestedAtRegularPsns) {
  for (int i = 0; i < 100; ++i) Post();
  pair_.RunToEnd();
  ASSERT_EQ(sent_.size(), 100u);
  EXPECT_TRUE(AllInOrder());
  for (const wire::Bth& bth : sent_) {
    const uint32_t last = RcRequester::kAckEvery - 1;
    EXPECT_EQ(bth.ack_request, bth.psn.value() % RcRequester::kAckEvery == last) << bth.psn.value();
  }
}

TEST_F(ShortMessagesTest, OnlyTheFirstAfterALongIntervalRequestsAnAcknowledgement) {
  Post();
  PollContext context = pair_.a.context(pair_.now_ns);
  pair_.a.active.Pop();
  pair_.a.endpoint->Transmit(context, 32);
  pair_.now_ns += RcRequester::kAckEveryNs;
  for (int i = 0; i < 3; ++i) Post();
  context.now_ns = pair_.now_ns;
  pair_.a.active.Pop();
  pair_.a.endpoint->Transmit(context, 32);
  pair_.a.egress.Flush(pair_.now_ns);
  std::vector<bool> asked;
  for (rte_mbuf* frame : pair_.a.outgoing) {
    wire::RocePacket packet;
    ASSERT_EQ(
        wire::ParseRocePacket(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len, &packet),
        wire::ParseResult::kOk);
    asked.push_back(packet.bth.ack_request);
  }
  EXPECT_EQ(asked, (std::vector<bool>{false, true, false, false}));
}

TEST_F(ShortMessagesTest, SolicitedIsThatOfEachSend) {
  Post(IBV_SEND_SOLICITED);
  Post();
  Post(IBV_SEND_SOLICITED, 8, IBV_WR_RDMA_WRITE);
  Post(IBV_SEND_SOLICITED, 1);
  pair_.RunToEnd();
  ASSERT_EQ(sent_.size(), 4u);
  EXPECT_TRUE(sent_[0].solicited);
  EXPECT_FALSE(sent_[1].solicited);
  EXPECT_FALSE(sent_[2].solicited) << "a WRITE completes no receive";
  EXPECT_TRUE(sent_[3].solicited);
}

TEST_F(ShortMessagesTest, EachKindIsRecordedByItself) {
  // After the first message 14 PSNs are left before they wrap.
  for (int i = 0; i < 13; ++i) Post();
  Post(0, 64, IBV_WR_RDMA_WRITE);
  Post(0, 64, IBV_WR_RDMA_WRITE);  // PSN 0
  Post(0, 65, IBV_WR_RDMA_WRITE);
  Post();
  pair_.Run();
  std::vector<FlightEntry> runs;
  for (const FlightEntry& entry : pair_.a.endpoint->diagnostics().recorder().Entries()) {
    if (entry.kind == FlightKind::kSent && entry.psn != Psn(0xFFFFF0)) runs.push_back(entry);
  }
  constexpr auto kSend = static_cast<uint8_t>(wire::Opcode::kRcSendOnly);
  constexpr auto kWrite = static_cast<uint8_t>(wire::Opcode::kRcWriteOnly);
  struct Expected {
    uint8_t code;
    uint32_t psn, count;
    uint16_t bytes;
  };
  const Expected expected[] = {
      {kSend, 0xFFFFF1, 13, 64}, {kWrite, 0xFFFFFE, 2, 64}, {kWrite, 0, 1, 65}, {kSend, 1, 1, 64}};
  ASSERT_EQ(runs.size(), std::size(expected));
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].code, expected[i].code) << i;
    EXPECT_EQ(runs[i].psn, Psn(expected[i].psn)) << i;
    EXPECT_EQ(runs[i].count, expected[i].count) << i;
    EXPECT_EQ(runs[i].detail, expected[i].bytes) << i;
  }
}

TEST_F(ShortMessagesTest, ATurnEndsWithItsBytes) {
  for (int i = 0; i < 5; ++i) Post();
  PollContext context = pair_.a.context(pair_.now_ns);
  pair_.a.active.Pop();
  pair_.a.egress.BeginTurn(200);  // a frame has 122 bytes
  EXPECT_TRUE(pair_.a.endpoint->Transmit(context, 32)) << "it has more to send";
  pair_.a.egress.Flush(pair_.now_ns);
  EXPECT_EQ(pair_.a.outgoing.size(), 2u);
  pair_.a.egress.BeginTurn(1 << 20);
  EXPECT_FALSE(pair_.a.endpoint->Transmit(context, 32));
  pair_.RunToEnd();
  EXPECT_EQ(sent_.size(), 5u);
  EXPECT_TRUE(AllInOrder());
}

TEST_F(ShortMessagesTest, ARunMayUseSeveralRegions) {
  uint8_t* const memory = pair_.a.memory.data();
  const auto address = reinterpret_cast<uint64_t>(memory);
  const uint32_t second = Register(pair_.a.pd, memory + 4096, 128);
  const uint32_t fast =
      pair_.a.regions.RegisterFast(&pair_.a.pd, memory + 8192, 64, IBV_ACCESS_LOCAL_WRITE)->key;
  memory[4096 + 64] = 2;
  memory[8192] = 3;
  PostWithKey(pair_.a.key, address, 1);
  PostWithKey(second, address + 4096 + 64, 2);
  PostWithKey(fast, address + 8192, 3);
  PostWithKey(second, address + 4096 + 64, 4);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 4u);
  // The first receive was the constructor's.
  EXPECT_EQ(pair_.b.memory[2 * 64], 2);
  EXPECT_EQ(pair_.b.memory[3 * 64], 3);
  EXPECT_EQ(pair_.b.memory[4 * 64], 2);
}

TEST_F(ShortMessagesTest, EachMessageIsCheckedWithItsOwnKey) {
  memory::ProtectionDomain other{.regions = &pair_.a.regions, .handle = 2};
  uint8_t* const memory = pair_.a.memory.data();
  const auto address = reinterpret_cast<uint64_t>(memory);
  struct Fault {
    uint32_t key;
    uint64_t address;
  };
  const Fault faults[] = {
      {Register(pair_.a.pd, memory + 4096, 128), address + 4096 + 65},  // beyond the end
      {Register(other, memory, 4096), address},                         // of another domain
      {pair_.a.key ^ 0x01000000, address},                              // of no region
  };
  for (const Fault& fault : faults) {
    PostWithKey(pair_.a.key, address, 1);
    PostWithKey(fault.key, fault.address, 2);
    PostWithKey(pair_.a.key, address, 3);
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[1].status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
    Reconnect();
  }
}

TEST_F(ShortMessagesTest, AThreadWithoutACacheOfMbufsSendsThemToo) {
  for (int i = 0; i < 40; ++i) Post();
  // It is no lcore of DPDK's.
  std::thread([this] { pair_.RunToEnd(); }).join();
  EXPECT_EQ(sent_.size(), 40u);
  EXPECT_TRUE(AllInOrder());
  EXPECT_EQ(pair_.b.Poll().size(), 40u);
}

TEST_F(ShortMessagesTest, WithFewMbufsTheRestIsSentLater) {
  std::vector<rte_mbuf*> taken;
  while (rte_mbuf* frame = pair_.a.egress.Allocate()) taken.push_back(frame);
  for (uint32_t left = 0; left < Egress::kFetchAhead + 3; ++left) {
    sent_.clear();
    for (uint32_t i = 0; i < left; ++i) {
      rte_pktmbuf_free(taken.back());
      taken.pop_back();
    }
    for (int i = 0; i < 5; ++i) Post();
    PollContext context = pair_.a.context(pair_.now_ns);
    pair_.a.active.Pop();
    EXPECT_EQ(pair_.a.endpoint->Transmit(context, 32), left < 5) << left;
    pair_.a.egress.Flush(pair_.now_ns);
    EXPECT_EQ(pair_.a.outgoing.size(), std::min(left, 5u));
    // Now there are some.
    for (int i = 0; i < 5; ++i) {
      rte_pktmbuf_free(taken.back());
      taken.pop_back();
    }
    pair_.a.endpoint->qp.Activate();
    pair_.RunToEnd();
    EXPECT_EQ(sent_.size(), 5u) << left;
    EXPECT_TRUE(AllInOrder()) << left;
    while (rte_mbuf* frame = pair_.a.egress.Allocate()) taken.push_back(frame);
  }
  for (rte_mbuf* frame : taken) rte_pktmbuf_free(frame);
}

}  // namespace
}  // namespace pollux::transport
