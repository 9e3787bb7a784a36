#include "stack/transport/rc/rc_requester.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "stack/transport/test_pair.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

using wire::Opcode;
using wire::Operation;

class RcRequesterTest : public ::testing::Test {
 protected:
  void Fill(uint32_t length) {
    for (uint32_t i = 0; i < length; ++i) pair_.a.memory[i] = static_cast<uint8_t>(i * 7 + length);
  }
  // Expects exactly one completion at `node`, and returns it.
  ibv_wc One(TestNode& node) {
    const std::vector<ibv_wc> all = node.Poll();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? ibv_wc{} : all[0];
  }
  uint64_t Remote(uint32_t offset = 0) {
    return reinterpret_cast<uint64_t>(pair_.b.memory.data()) + offset;
  }
  bool SameBytes(uint32_t length) {
    return std::equal(pair_.a.memory.begin(), pair_.a.memory.begin() + length,
                      pair_.b.memory.begin());
  }
  TestPair pair_;
};

constexpr uint32_t kSizes[] = {0, 1, 3, 4, 1023, 1024, 1025, 2048, 4097, 200'000};

TEST_F(RcRequesterTest, SendsOfEverySizeArrive) {
  for (const uint32_t size : kSizes) {
    Fill(size);
    ASSERT_EQ(pair_.b.PostRecv(9, pair_.b.memory.data(), 1 << 19), 0);
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 5, pair_.a.memory.data(), size), 0);
    pair_.Run();
    const ibv_wc sent = One(pair_.a);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    EXPECT_EQ(sent.wr_id, 5u);
    const ibv_wc received = One(pair_.b);
    EXPECT_EQ(received.byte_len, size);
    EXPECT_EQ(received.wr_id, 9u);
    EXPECT_TRUE(SameBytes(size)) << size;
  }
  EXPECT_EQ(pair_.a.counters.retransmitted_pkts, 0u);
}

TEST_F(RcRequesterTest, WritesAndReadsOfEverySizeArrive) {
  for (const uint32_t size : kSizes) {
    Fill(size);
    ASSERT_EQ(
        pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), size, Remote(), pair_.b.key),
        0);
    pair_.Run();
    EXPECT_EQ(One(pair_.a).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(SameBytes(size)) << size;
    std::fill_n(pair_.a.memory.begin(), size, 0);
    ASSERT_EQ(
        pair_.a.PostSend(IBV_WR_RDMA_READ, 2, pair_.a.memory.data(), size, Remote(), pair_.b.key),
        0);
    pair_.Run();
    const ibv_wc read = One(pair_.a);
    EXPECT_EQ(read.status, IBV_WC_SUCCESS);
    EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(read.byte_len, size);
    EXPECT_TRUE(SameBytes(size)) << size;
  }
}

// By a peer that answers with fewer bytes than it was asked for, and by one with more.
TEST(RcRequester, AReadResponseOfAnotherLengthIsABadResponse) {
  for (const uint32_t answered : {399u, 401u}) {
    TestPair pair(IBV_QPT_RC);
    pair.hook = [answered](bool, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (packet.info->operation == wire::Operation::kReadRequest) {
        auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
        wire::Reth reth = packet.reth();
        reth.length = answered;
        wire::EmitReth(reth, bytes + packet.ext_offset);
        wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
      }
      return PacketAction::kDeliver;
    };
    pair.a.memory[400] = 77;
    ASSERT_EQ(pair.a.PostSend(IBV_WR_RDMA_READ, 1, pair.a.memory.data(), 400,
                              reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key),
              0);
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, IBV_WC_BAD_RESP_ERR) << ibv_wc_status_str(all[0].status);
    EXPECT_EQ(pair.a.endpoint->qp.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.a.memory[400], 77);
  }
}

// IB specification section 9.7: an ACK says that a READ or an atomic was executed. Its data is lost
// with its response, and is asked for again.
TEST(RcRequester, AnAckCompletesNoReadOrAtomic) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    TestPair pair;
    int responses = 0, acks = 0;
    pair.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf*) {
      acks += packet.info->operation == Operation::kAck;
      const bool response = packet.info->operation == Operation::kReadResponse ||
                            packet.info->operation == Operation::kAtomicAck;
      return response && responses++ == 0 ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    const auto remote = reinterpret_cast<uint64_t>(pair.b.memory.data());
    uint8_t* const local = pair.a.memory.data();
    pair.b.memory[0] = 77;
    if (opcode == IBV_WR_RDMA_READ) {
      ASSERT_EQ(pair.a.PostSend(opcode, 1, local, 8, remote, pair.b.key), 0);
    } else {
      ASSERT_EQ(pair.a.PostAtomic(opcode, 1, local, remote, pair.b.key, 1), 0);
    }
    pair.a.PostSend(IBV_WR_RDMA_WRITE, 2, local + 64, 8, remote + 64, pair.b.key);
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 2u);
    for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[0].wr_id, 1u);
    EXPECT_GT(acks, 0);
    EXPECT_EQ(responses, 2);
    EXPECT_EQ(local[0], 77);
  }
}

TEST_F(RcRequesterTest, ImmediateArrives) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.b.PostRecv(2, pair_.b.memory.data(), 0);
  pair_.a.PostSend(IBV_WR_SEND_WITH_IMM, 1, pair_.a.memory.data(), 10);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE_WITH_IMM, 2, pair_.a.memory.data(), 5000, Remote(),
                   pair_.b.key);
  pair_.Run();
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(all[0].imm_data, 0x01020304u);
  EXPECT_EQ(all[1].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(all[1].byte_len, 5000u);
  EXPECT_NE(all[1].wc_flags & IBV_WC_WITH_IMM, 0u);
}

TEST_F(RcRequesterTest, SendGathersSeveralElements) {
  Fill(300);
  pair_.b.PostRecv(1, pair_.b.memory.data(), 300);
  const uint64_t base = reinterpret_cast<uint64_t>(pair_.a.memory.data());
  ibv_sge list[] = {{base, 100, pair_.a.key}, {base + 100, 0, 0}, {base + 100, 200, pair_.a.key}};
  ibv_send_wr wr{};
  wr.sg_list = list;
  wr.num_sge = 3;
  wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(pair_.a.endpoint->qp.PostSend(&wr, nullptr), 0);
  pair_.Run();
  EXPECT_EQ(One(pair_.b).byte_len, 300u);
  EXPECT_TRUE(SameBytes(300));
  EXPECT_TRUE(pair_.a.Poll().empty()) << "unsignalled";
}

// Each single frame of a mixed exchange is lost once, in turn: everything still arrives.
TEST_F(RcRequesterTest, TransfersSurviveTheLossOfAnyFrame) {
  for (int lost = 0; lost < 60; ++lost) {
    int count = 0;
    pair_.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
      return count++ == lost ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    Fill(10'000);
    std::fill(pair_.b.memory.begin(), pair_.b.memory.end(), 0);
    pair_.b.PostRecv(1, pair_.b.memory.data(), 10'000);
    pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10'000);
    pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 10'000, Remote(20'000),
                     pair_.b.key);
    pair_.a.PostSend(IBV_WR_RDMA_READ, 3, pair_.a.memory.data() + 100'000, 10'000, Remote(20'000),
                     pair_.b.key);
    pair_.a.PostSend(IBV_WR_RDMA_READ, 4, pair_.a.memory.data() + 120'000, 5'000, Remote(20'000),
                     pair_.b.key);
    pair_.a.PostSend(IBV_WR_RDMA_WRITE, 5, pair_.a.memory.data(), 2'000, Remote(40'000),
                     pair_.b.key);
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 5u) << "frame " << lost;
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(all[i].status, IBV_WC_SUCCESS) << "frame " << lost;
      EXPECT_EQ(all[i].wr_id, i + 1);
    }
    EXPECT_EQ(pair_.b.Poll().size(), 1u) << "delivered once, frame " << lost;
    const auto same = [&](size_t at, size_t from, size_t n, auto& memory) {
      return std::equal(pair_.a.memory.begin() + from, pair_.a.memory.begin() + from + n,
                        memory.begin() + at);
    };
    EXPECT_TRUE(same(0, 0, 10'000, pair_.b.memory));
    EXPECT_TRUE(same(20'000, 0, 10'000, pair_.b.memory));
    EXPECT_TRUE(same(100'000, 0, 10'000, pair_.a.memory)) << "frame " << lost;
    EXPECT_TRUE(same(120'000, 0, 5'000, pair_.a.memory)) << "frame " << lost;
  }
  EXPECT_GT(pair_.a.counters.rcvd_seq_err, 0u);
  EXPECT_GT(pair_.a.counters.implied_nak_seq_err, 0u);
  EXPECT_GT(pair_.a.counters.tail_probes, 0u);
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u) << "nothing waits for the time-out";
}

TEST_F(RcRequesterTest, DuplicatedFramesAreExecutedOnce) {
  pair_.hook = [](bool, const wire::RocePacket&, rte_mbuf*) { return PacketAction::kDuplicate; };
  Fill(50'000);
  pair_.b.PostRecv(1, pair_.b.memory.data(), 50'000);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 50'000);
  pair_.a.PostSend(IBV_WR_RDMA_READ, 2, pair_.a.memory.data() + 100'000, 50'000, Remote(),
                   pair_.b.key);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 2u);
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
  EXPECT_TRUE(SameBytes(50'000));
  EXPECT_GT(pair_.b.counters.duplicate_request, 0u);
}

TEST_F(RcRequesterTest, SilentPeerExhaustsRetries) {
  pair_.hook = [](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    return from_a ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(all[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 8u) << "7 retries, then the end";
  EXPECT_EQ(pair_.a.endpoint->qp.state(), IBV_QPS_ERR);
}

// By the clock of the test: how long a requester waits for a peer that does not answer.
class AckTimeoutTest : public testing::Test {
 protected:
  static uint64_t WaitsInAllNs(uint8_t timeout) {
    ibv_qp_attr attr = TestPair::DefaultAttr();
    attr.timeout = timeout;
    TestPair pair(IBV_QPT_RC, &attr);
    pair.hook = [](bool, const wire::RocePacket&, rte_mbuf*) { return PacketAction::kDrop; };
    pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 10);
    const uint64_t start_ns = pair.now_ns;
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all.at(0).status, IBV_WC_RETRY_EXC_ERR);
    return pair.now_ns - start_ns;
  }
};

TEST_F(AckTimeoutTest, IsOneToFourTimesTheRequestedTimeout) {
  const uint64_t asked_ns = wire::TimeoutCodeNs(10);
  EXPECT_GE(WaitsInAllNs(10), (1 + 2 + 6 * 4) * asked_ns);
  EXPECT_LE(WaitsInAllNs(10), 8 * 4 * asked_ns);
}

TEST_F(AckTimeoutTest, ShortTimeoutsOutlastAStall) {
  EXPECT_GE(WaitsInAllNs(14), 1'500'000'000u);
  EXPECT_LE(WaitsInAllNs(14), 8 * 4 * wire::TimeoutCodeNs(14));
}

TEST_F(AckTimeoutTest, LongTimeoutsAreNotExtended) {
  EXPECT_GE(WaitsInAllNs(18), 8 * wire::TimeoutCodeNs(18));
  EXPECT_LT(WaitsInAllNs(18), 9 * wire::TimeoutCodeNs(18));
}

TEST_F(RcRequesterTest, AddressResolutionCostsNoRetry) {
  const MacAddress mac = pair_.a.link_address.Load().mac;
  pair_.a.link_address.Store({}, false);
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.Run();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(pair_.Wait());
  EXPECT_TRUE(pair_.a.Poll().empty());
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u);
  pair_.a.link_address.Store(mac, true);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
}

TEST_F(RcRequesterTest, AnUnresolvableNextHopExhaustsRetries) {
  pair_.a.link_address.Store({}, false, /*unanswered=*/true);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(RcRequesterTest, ATimeoutReportsTheNextHopAsSuspect) {
  class : public Resolver {
   public:
    void SendWhenResolved(const verbs::LinkAddress*, rte_mbuf*, PollContext&) override {
      ADD_FAILURE() << "it is resolved";
    }
    void Suspect(const verbs::LinkAddress* link, PollContext&) override {
      suspects.push_back(link);
    }
    std::vector<const verbs::LinkAddress*> suspects;
  } resolver;
  pair_.hook = [](bool, const wire::RocePacket&, rte_mbuf*) { return PacketAction::kDrop; };
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.Run();
  while (pair_.a.counters.local_ack_timeout_err == 0) {
    EXPECT_TRUE(resolver.suspects.empty()) << "by a probe";
    pair_.now_ns = pair_.a.endpoint->deadline_ns();
    PollContext context = pair_.a.context(pair_.now_ns);
    context.resolver = &resolver;
    pair_.a.endpoint->OnDeadline(context);
    pair_.Run();
  }
  EXPECT_EQ(resolver.suspects, std::vector<const verbs::LinkAddress*>{&pair_.a.link_address});
}

TEST_F(RcRequesterTest, OnlyNewAcknowledgementsCountAsProgress) {
  EXPECT_FALSE(pair_.a.endpoint->TakeProgress());
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.Run();
  EXPECT_TRUE(pair_.a.endpoint->TakeProgress());
  EXPECT_FALSE(pair_.a.endpoint->TakeProgress());
  EXPECT_FALSE(pair_.b.endpoint->TakeProgress()) << "it has sent nothing of its own";
  pair_.hook = [](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    return from_a ? PacketAction::kDeliver : PacketAction::kDrop;
  };
  pair_.b.PostRecv(2, pair_.b.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10);
  pair_.Run();
  EXPECT_FALSE(pair_.a.endpoint->TakeProgress());
}

TEST_F(RcRequesterTest, AnRnrNakDelaysTheRetry) {
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10);
  pair_.Run();
  EXPECT_EQ(pair_.a.counters.rcvd_rnr_err, 1u);
  EXPECT_TRUE(pair_.a.Poll().empty());
  ASSERT_TRUE(pair_.Wait());
  EXPECT_EQ(pair_.a.counters.rcvd_rnr_err, 2u);
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.b.PostRecv(2, pair_.b.memory.data(), 64);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 2u);
  EXPECT_EQ(pair_.b.Poll().size(), 2u);
}

TEST(RcRequesterRnrTest, ExhaustedRnrRetriesFailTheRequest) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.rnr_retry = 2;
  TestPair pair(IBV_QPT_RC, &attr);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 10);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.counters.rcvd_rnr_err, 3u);
}

// It can still be completed: the one that is refused is behind it.
TEST(RcRequesterRnrTest, ExhaustedRnrRetriesDoNotFailAReadWhoseResponseWasLost) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.rnr_retry = 0;
  TestPair pair(IBV_QPT_RC, &attr);
  bool lose = true;
  pair.hook = [&lose](bool, const wire::RocePacket& packet, rte_mbuf*) {
    const bool response = packet.info->operation == wire::Operation::kReadResponse;
    return response && std::exchange(lose, false) ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  ASSERT_EQ(pair.a.PostSend(IBV_WR_RDMA_READ, 1, pair.a.memory.data(), 100,
                            reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key),
            0);
  ASSERT_EQ(pair.a.PostSend(IBV_WR_SEND, 2, pair.a.memory.data(), 10), 0);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(all[0].status);
  EXPECT_EQ(all[1].status, IBV_WC_RNR_RETRY_EXC_ERR) << ibv_wc_status_str(all[1].status);
}

TEST(RcRequesterRnrTest, RnrRetrySevenRetriesForever) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.rnr_retry = 7;
  TestPair pair(IBV_QPT_RC, &attr);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 10);
  pair.Run();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pair.Wait());
  EXPECT_GE(pair.a.counters.rcvd_rnr_err, 20u);
  EXPECT_TRUE(pair.a.Poll().empty());
  pair.b.PostRecv(1, pair.b.memory.data(), 64);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
}

TEST_F(RcRequesterTest, ABadLocalKeyFailsInOrder) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 5000);
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 5000), 0);
  const uint32_t good = pair_.a.key;
  pair_.a.key ^= 0x100;
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10), 0);
  pair_.a.key = good;
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 3, pair_.a.memory.data(), 10), 0);
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
}

// The acknowledgement of two messages is lost, and the memory of the second is deregistered. The
// first is sent again, and its acknowledgement is for both: the third is sent, whether it was
// posted before that or after it.
TEST(RcRequester, ALocalFaultOfAnExecutedRequestAffectsNoOther) {
  for (const bool before : {true, false}) {
    TestPair pair;
    const uint32_t whole = pair.a.key;
    uint8_t* const memory = pair.a.memory.data();
    const auto post_third = [&] {
      pair.a.key = whole;
      ASSERT_EQ(pair.a.PostSend(IBV_WR_SEND, 3, memory, 10), 0);
    };
    bool third = before;
    pair.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
      if (from_a) return PacketAction::kDeliver;
      if (pair.a.counters.local_ack_timeout_err == 0) return PacketAction::kDrop;
      if (std::exchange(third, false)) post_third();
      return PacketAction::kDeliver;
    };
    for (int i = 1; i <= 3; ++i) pair.b.PostRecv(i, pair.b.memory.data(), 64);
    ASSERT_EQ(pair.a.PostSend(IBV_WR_SEND, 1, memory, 10), 0);
    pair.a.key = pair.a.regions.Register(&pair.a.pd, memory + 200, 10, 0)->key;
    ASSERT_EQ(pair.a.PostSend(IBV_WR_SEND, 2, memory + 200, 10), 0);
    pair.Run();
    ASSERT_TRUE(pair.a.regions.Deregister(pair.a.key).ok());
    pair.RunToEnd();
    if (!before) post_third();
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 3u);
    for (const ibv_wc& wc : all) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << wc.wr_id << ": " << ibv_wc_status_str(wc.status);
    }
    EXPECT_EQ(pair.b.Poll().size(), 3u);
  }
}

// The queue of work requests is empty then: nothing is left that could fail.
TEST_F(RcRequesterTest, ABadLocalKeyBehindALostCompletionFailsNothingMore) {
  ASSERT_TRUE(pair_.a.cq.Resize(1).ok());
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 8, Remote(), pair_.b.key),
            0);
  pair_.RunToEnd();  // its completion fills the queue
  pair_.b.PostRecv(1, pair_.b.memory.data(), 100);
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10), 0);
  pair_.a.key ^= 0x100;
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 3, pair_.a.memory.data(), 10), 0);
  pair_.RunToEnd();
  const verbs::QueuePair& qp = pair_.a.endpoint->qp;
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(qp.sq_head(), qp.sq_tail());
}

TEST_F(RcRequesterTest, ABadReadResponseBehindALostCompletionFailsNothingMore) {
  ASSERT_TRUE(pair_.a.cq.Resize(1).ok());
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 8, Remote(), pair_.b.key),
            0);
  pair_.RunToEnd();  // its completion fills the queue
  pair_.hook = [](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (!from_a && packet.info->operation == wire::Operation::kAck) return PacketAction::kDrop;
    if (packet.info->operation == wire::Operation::kReadRequest) {
      auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      wire::Reth reth = packet.reth();
      reth.length = 399;
      wire::EmitReth(reth, bytes + packet.ext_offset);
      wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    }
    return PacketAction::kDeliver;
  };
  pair_.b.PostRecv(1, pair_.b.memory.data(), 100);
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10), 0);
  ASSERT_EQ(
      pair_.a.PostSend(IBV_WR_RDMA_READ, 3, pair_.a.memory.data(), 400, Remote(), pair_.b.key), 0);
  pair_.RunToEnd();
  const verbs::QueuePair& qp = pair_.a.endpoint->qp;
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(qp.sq_head(), qp.sq_tail());
}

TEST_F(RcRequesterTest, ReadIntoReadOnlyMemoryIsRefused) {
  uint8_t target[16];
  ibv_sge sge{reinterpret_cast<uint64_t>(target), sizeof target,
              pair_.a.regions.Register(&pair_.a.pd, target, sizeof target, 0)->key};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.wr.rdma = {.remote_addr = Remote(), .rkey = pair_.b.key};
  ASSERT_EQ(pair_.a.endpoint->qp.PostSend(&wr, nullptr), 0);
  pair_.RunToEnd();
  EXPECT_EQ(One(pair_.a).status, IBV_WC_LOC_PROT_ERR);
}

TEST(RcRequesterDepthTest, OutstandingReadsStayWithinTheInitiatorDepth) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.max_rd_atomic = 2;
  TestPair pair(IBV_QPT_RC, &attr);
  int outstanding = 0, most = 0;
  pair.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf*) {
    if (packet.info->operation == Operation::kReadRequest) most = std::max(most, ++outstanding);
    if (packet.bth.opcode == Opcode::kRcReadResponseOnly ||
        packet.bth.opcode == Opcode::kRcReadResponseLast) {
      --outstanding;
    }
    return PacketAction::kDeliver;
  };
  for (int i = 0; i < 10; ++i) {
    pair.a.PostSend(IBV_WR_RDMA_READ, i, pair.a.memory.data() + 8192 * i, 3000,
                    reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  }
  pair.RunToEnd();
  EXPECT_EQ(pair.a.Poll().size(), 10u);
  EXPECT_EQ(most, 2);
}

TEST(RcRequesterDepthTest, ReadWithoutInitiatorDepthIsALocalError) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.max_rd_atomic = 0;
  TestPair pair(IBV_QPT_RC, &attr);
  pair.a.PostSend(IBV_WR_RDMA_READ, 1, pair.a.memory.data(), 10,
                  reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_LOC_QP_OP_ERR);
}

// A copy of a sequence NAK is not a second loss: it neither resends nor uses up a retry.
TEST_F(RcRequesterTest, DuplicatedSequenceNakIsIgnored) {
  int frame_number = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a) return frame_number++ == 1 ? PacketAction::kDrop : PacketAction::kDeliver;
    return packet.info->operation == Operation::kAck &&
                   packet.aeth().syndrome == wire::kNakPsnSequence
               ? PacketAction::kDuplicate
               : PacketAction::kDeliver;
  };
  pair_.b.PostRecv(1, pair_.b.memory.data(), 20'000);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 20'000);
  pair_.RunToEnd();
  EXPECT_EQ(One(pair_.a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair_.a.counters.rcvd_seq_err, 2u);
  EXPECT_EQ(pair_.a.counters.completer_retry_err, 1u);
  EXPECT_EQ(pair_.a.counters.retransmitted_pkts, 19u);
}

TEST_F(RcRequesterTest, FenceWaitsForReads) {
  bool read_answered = false;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (packet.bth.opcode == Opcode::kRcReadResponseLast) read_answered = true;
    if (from_a && packet.info->operation == Operation::kWrite) {
      EXPECT_TRUE(read_answered);
    }
    return PacketAction::kDeliver;
  };
  pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data(), 5000, Remote(), pair_.b.key);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair_.a.memory.data(), 10, Remote(), pair_.b.key,
                   IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 2u);
}

TEST_F(RcRequesterTest, PacketsInFlightStayWithinTheWindow) {
  // No acknowledgement comes back: the requester stops at its bound.
  int sent = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    sent += from_a;
    return from_a ? PacketAction::kDeliver : PacketAction::kDrop;
  };
  pair_.b.PostRecv(1, pair_.b.memory.data(), 1 << 19);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 1 << 19);
  pair_.Run();
  EXPECT_EQ(sent, static_cast<int>(RcRequester::kMaxInFlight));
}

class RcRequesterLongPacketsTest : public ::testing::Test {
 protected:
  static ibv_qp_attr Attr() {
    ibv_qp_attr attr = TestPair::DefaultAttr();
    attr.path_mtu = IBV_MTU_4096;
    return attr;
  }
  // As many as `message_bytes` each are taken without an acknowledgement.
  int SentUnanswered(uint32_t message_bytes) {
    int sent = 0;
    pair_.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
      sent += from_a;
      return from_a ? PacketAction::kDeliver : PacketAction::kDrop;
    };
    for (int i = 0; i < 200; ++i) {
      pair_.a.PostSend(IBV_WR_RDMA_WRITE, i, pair_.a.memory.data(), message_bytes,
                       reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
    }
    pair_.Run();
    return sent;
  }
  const ibv_qp_attr attr_ = Attr();
  TestPair pair_{IBV_QPT_RC, &attr_};
};

TEST_F(RcRequesterLongPacketsTest, BytesOfLongMessagesStayWithinTheWindow) {
  EXPECT_EQ(SentUnanswered(1 << 17), static_cast<int>(kWindowBytes / 4096));
}

TEST_F(RcRequesterLongPacketsTest, BytesOfSingleLongPacketsStayWithinTheWindow) {
  EXPECT_EQ(SentUnanswered(4096), static_cast<int>(kWindowBytes / 4096));
}

TEST_F(RcRequesterLongPacketsTest, ShortMessagesAreLimitedByPacketsOnly) {
  EXPECT_EQ(SentUnanswered(64), static_cast<int>(RcRequester::kMaxInFlight));
}

// A pause is no reason to ask: there is nothing to be told.
TEST_F(RcRequesterTest, TheFirstPacketAfterAPauseRequestsNoAcknowledgement) {
  pair_.now_ns += 1'000'000'000;
  std::vector<bool> asks;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a) asks.push_back(packet.bth.ack_request);
    return PacketAction::kDeliver;
  };
  pair_.b.PostRecv(1, pair_.b.memory.data(), 5'000);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 5'000);
  pair_.RunToEnd();
  EXPECT_EQ(asks, (std::vector<bool>{false, false, false, false, true}));
}

TEST_F(RcRequesterTest, ForgedResponsesChangeNothing) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  // Acknowledgements of what was never sent.
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a || packet.info->operation != Operation::kAck) return PacketAction::kDeliver;
    rte_pktmbuf_mtod(frame, uint8_t*)[packet.bth_offset + 11] += 5;
    wire::EmitIcrc(wire::ComputeIcrc(packet),
                   rte_pktmbuf_mtod(frame, uint8_t*) + packet.icrc_offset);
    return PacketAction::kDeliver;
  };
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.Run();
  EXPECT_TRUE(pair_.a.Poll().empty());
  EXPECT_EQ(pair_.a.counters.drop(Drop::kUnexpectedResponse), 1u);
}

}  // namespace
}  // namespace pollux::transport
