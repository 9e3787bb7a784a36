// What a loss costs a reliable connection, in virtual time.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "stack/base/random.h"
#include "stack/transport/rc/retransmission_timeout.h"
#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

using wire::Operation;

constexpr uint32_t kLostPackets = 40;
constexpr uint32_t kLostBytes = kLostPackets * 1024;
constexpr uint64_t kFrameNs = 500;
// A message and its acknowledgement, and what was sent again; a time-out takes 67 ms.
constexpr uint64_t kFewRoundTripsNs = 10 * RetransmissionTimeout::kMinProbeNs;

bool IsRnrNak(const wire::RocePacket& packet) {
  return packet.info->operation == Operation::kAck && wire::IsRnrNak(packet.aeth().syndrome);
}

bool IsSequenceNak(const wire::RocePacket& packet) {
  return packet.info->operation == Operation::kAck &&
         packet.aeth().syndrome == wire::kNakPsnSequence;
}

class RcRecoveryTest : public ::testing::Test {
 protected:
  RcRecoveryTest() {
    // One short message, by which the round trip is known.
    pair_.hook = [this](bool, const wire::RocePacket&, rte_mbuf*) {
      pair_.now_ns += kFrameNs;
      return PacketAction::kDeliver;
    };
    pair_.b.PostRecv(0, pair_.b.memory.data(), 1);
    pair_.a.PostSend(IBV_WR_SEND, 0, pair_.a.memory.data(), 1);
    pair_.Run();
    EXPECT_EQ(pair_.a.Poll().size(), 1u);
    pair_.hook = [this](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
      pair_.now_ns += kFrameNs;
      if (from_a) {
        const int times = ++sent_[packet.bth.psn.value()];
        const uint32_t index = static_cast<uint32_t>(Distance(first_, packet.bth.psn));
        return index == lost_index_ && times <= lost_times_ ? PacketAction::kDrop
                                                            : PacketAction::kDeliver;
      }
      if (!IsSequenceNak(packet)) return PacketAction::kDeliver;
      ++naks_;
      if (naks_ <= lost_naks_) return PacketAction::kDrop;
      // A peer that says once what it misses, whatever comes after.
      if (only_one_nak_ && naks_ > 1) return PacketAction::kDrop;
      return PacketAction::kDeliver;
    };
  }
  // One message; returns how long it took.
  uint64_t Send() {
    for (uint32_t i = 0; i < kLostBytes; ++i)
      pair_.a.memory[i] = static_cast<uint8_t>(i * 13 + i / 700);
    pair_.b.PostRecv(1, pair_.b.memory.data(), kLostBytes);
    const uint64_t start = pair_.now_ns;
    pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), kLostBytes);
    pair_.Run();
    while (pair_.a.cq.size() == 0 && pair_.Wait()) {
    }
    const uint64_t took = pair_.now_ns - start;
    const std::vector<ibv_wc> all = pair_.a.Poll();
    EXPECT_EQ(all.size(), 1u);
    for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u);
    EXPECT_TRUE(std::equal(pair_.a.memory.begin(), pair_.a.memory.begin() + kLostBytes,
                           pair_.b.memory.begin()));
    return took;
  }
  TestPair pair_;
  Psn first_ = Psn(TestPair::DefaultAttr().sq_psn) + 1;
  std::map<uint32_t, int> sent_;  // times, by PSN
  uint32_t lost_index_ = 3;       // of the packet that is lost,
  int lost_times_ = 1;            // and how often
  int lost_naks_ = 0;
  bool only_one_nak_ = false;
  int naks_ = 0;
};

// The peer learns of each new loss by a NAK: a requester without probes would not stall either.
TEST_F(RcRecoveryTest, ALostRetransmissionGetsAnotherNak) {
  lost_times_ = 5;
  EXPECT_LT(Send(), kFewRoundTripsNs);
  EXPECT_EQ(naks_, 5);
  EXPECT_EQ(pair_.a.counters.tail_probes, 0u);
}

TEST_F(RcRecoveryTest, ALostRetransmissionIsFoundByProbesIfThePeerNaksOnce) {
  lost_times_ = 3;
  only_one_nak_ = true;
  EXPECT_LT(Send(), kFewRoundTripsNs);
  EXPECT_GT(pair_.a.counters.tail_probes, 0u);
}

TEST_F(RcRecoveryTest, ALostNakIsRepaired) {
  lost_naks_ = 1;
  EXPECT_LT(Send(), kFewRoundTripsNs);
}

TEST_F(RcRecoveryTest, ALostNakOfAPeerThatNaksOnceIsRepaired) {
  lost_naks_ = 1;
  only_one_nak_ = true;
  EXPECT_LT(Send(), kFewRoundTripsNs);
}

// The probe fills the gap, and by asking for an acknowledgement it learns so: the packets behind it
// are sent again at once, not when the time-out ends.
TEST_F(RcRecoveryTest, AProbeInTheMiddleOfAMessageIsAnswered) {
  lost_naks_ = 1000;
  lost_index_ = 5;
  EXPECT_LT(Send(), kFewRoundTripsNs);
  EXPECT_GT(pair_.a.counters.tail_probes, 0u);
}

TEST_F(RcRecoveryTest, ALostLastPacketIsResent) {
  lost_index_ = kLostPackets - 1;
  lost_times_ = 3;
  EXPECT_LT(Send(), kFewRoundTripsNs);
  EXPECT_EQ(naks_, 0);
}

// Each step of the way back that the peer takes without the missing packet earns one NAK.
TEST_F(RcRecoveryTest, EachGoBackGetsOneNak) {
  lost_times_ = 2;
  Send();
  EXPECT_EQ(pair_.b.counters.sent_seq_nak, 2u);
  EXPECT_EQ(pair_.a.counters.completer_retry_err, 2u);
}

// Linux's rxe goes back for a further NAK only if something was acknowledged since the one before.
TEST_F(RcRecoveryTest, ALossDuringGoBackIsRepairedIfThePeerIgnoresRepeatedNaks) {
  constexpr int32_t kFirst = 3, kSecond = 20;
  bool acknowledged = true, lost_again = false;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    pair_.now_ns += kFrameNs;
    if (from_a) {
      const int32_t index = Distance(first_, packet.bth.psn);
      const int times = ++sent_[packet.bth.psn.value()];
      if (index == kFirst) return times == 1 ? PacketAction::kDrop : PacketAction::kDeliver;
      const bool back = sent_[(first_ + kFirst).value()] == 2;
      return index == kSecond && back && !std::exchange(lost_again, true) ? PacketAction::kDrop
                                                                          : PacketAction::kDeliver;
    }
    const bool nak = IsSequenceNak(packet);
    return std::exchange(acknowledged, !nak) || !nak ? PacketAction::kDeliver : PacketAction::kDrop;
  };
  EXPECT_LT(Send(), kFewRoundTripsNs);
  EXPECT_EQ(pair_.b.counters.sent_seq_nak, 2u);
  EXPECT_EQ(pair_.a.counters.tail_probes, 0u);
}

// A network that repeats or reorders must not spend the retries of a peer whose packets come.
TEST(RcRepetitionTest, DuplicatesBeyondAGapAreNotAGoBack) {
  TestPair pair;
  const Psn gap = Psn(TestPair::DefaultAttr().sq_psn) + 3;
  bool lost = false;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (!from_a) return PacketAction::kDeliver;
    if (packet.bth.psn == gap && !std::exchange(lost, true)) return PacketAction::kDrop;
    return PacketAction::kDuplicate;
  };
  pair.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair.a.memory.data(), 100 * 1024,
                  reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.counters.sent_seq_nak, 1u);
  EXPECT_EQ(pair.a.counters.completer_retry_err, 1u);
}

// A network that repeats an RNR NAK must not spend the retries of a peer that is ready in time.
TEST(RcRepetitionTest, ADuplicatedRnrNakCountsAsOneRetry) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.rnr_retry = 1;
  TestPair pair(IBV_QPT_RC, &attr);
  int naks = 0;
  pair.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf*) {
    if (!IsRnrNak(packet)) return PacketAction::kDeliver;
    ++naks;
    pair.b.PostRecv(1, pair.b.memory.data(), 64);
    return PacketAction::kDuplicate;
  };
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  pair.RunToEnd();
  EXPECT_EQ(naks, 1);
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(all[0].status);
}

// With timer 0, an RNR NAK asks for the longest wait.
class RcRnrWaitTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kWaitNs = 655'360'000;
  static ibv_qp_attr Attr() {
    ibv_qp_attr attr = TestPair::DefaultAttr();
    attr.min_rnr_timer = 0;
    return attr;
  }
  const ibv_qp_attr attr_ = Attr();
  TestPair pair_{IBV_QPT_RC, &attr_};
};

// A peer that stood still has received a probe as well, and refuses only the first copy.
TEST_F(RcRnrWaitTest, TheAcknowledgementOfItsRequestEndsTheWait) {
  rte_mbuf* late_nak = nullptr;
  int naks = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (IsRnrNak(packet) && naks++ == 0) {
      late_nak = rte_pktmbuf_copy(frame, pair_.b.pool, 0, UINT32_MAX);
      return PacketAction::kDrop;
    }
    if (from_a && late_nak != nullptr) {
      pair_.b.outgoing.push_back(std::exchange(late_nak, nullptr));
      pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
    }
    return PacketAction::kDeliver;
  };
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 10);
  pair_.Run();
  ASSERT_TRUE(pair_.Wait());
  ASSERT_EQ(pair_.a.counters.rcvd_rnr_err, 1u);
  ASSERT_EQ(pair_.a.Poll().size(), 1u);
  pair_.b.PostRecv(2, pair_.b.memory.data(), 64);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10);
  pair_.Run();
  EXPECT_EQ(pair_.a.Poll().size(), 1u);
}

// The response to an older READ arrives meanwhile. A peer that has asked for a wait is there.
TEST_F(RcRnrWaitTest, ALongWaitCausesNoLocalAckTimeout) {
  bool lose_response = true;
  pair_.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf*) {
    if (IsRnrNak(packet)) pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
    return packet.info->operation == Operation::kReadResponse && std::exchange(lose_response, false)
               ? PacketAction::kDrop
               : PacketAction::kDeliver;
  };
  const uint64_t start_ns = pair_.now_ns;
  pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data(), 64,
                   reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), 10);
  pair_.Run();
  ASSERT_EQ(pair_.a.counters.rcvd_rnr_err, 1u);
  ASSERT_EQ(pair_.a.Poll().size(), 1u) << "the READ";
  pair_.RunToEnd();
  ASSERT_EQ(pair_.a.Poll().size(), 1u);
  EXPECT_EQ(pair_.now_ns - start_ns, kWaitNs);
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u);
}

// A READ and `sends` SENDs behind it, with their receives.
void PostReadAndSends(TestPair& pair, int sends) {
  pair.a.PostSend(IBV_WR_RDMA_READ, 0, pair.a.memory.data(), 64,
                  reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  for (int i = 1; i <= sends; ++i) {
    pair.b.PostRecv(i, pair.b.memory.data() + 1024, 64);
    pair.a.PostSend(IBV_WR_SEND, i, pair.a.memory.data() + 1024, 64);
  }
}

// A peer acknowledges what it has executed before it says what it misses: the ACK shows that the
// READ response is lost, and the NAK that the SEND is.
TEST(RcRepetitionTest, AReadResponseAndARequestLostTogetherCostOneRetry) {
  constexpr int kSends = 20, kLostSend = 10;
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.retry_cnt = 1;
  TestPair pair(IBV_QPT_RC, &attr);
  bool lose_response = true, lose_send = true;
  int acks_before_nak = 0, naks = 0;
  pair.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf*) {
    if (IsSequenceNak(packet)) {
      ++naks;
    } else if (packet.info->operation == Operation::kAck) {
      acks_before_nak += naks == 0;
    }
    const bool lost =
        packet.info->operation == Operation::kReadResponse ? std::exchange(lose_response, false)
        : packet.bth.psn == Psn(attr.sq_psn) + kLostSend   ? std::exchange(lose_send, false)
                                                           : false;
    return lost ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  PostReadAndSends(pair, kSends);
  pair.RunToEnd();
  EXPECT_EQ(acks_before_nak, 1);
  EXPECT_EQ(naks, 1);
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 1u + kSends);
  for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  EXPECT_EQ(pair.a.counters.completer_retry_err, 1u);
}

// The response to an older READ is still missing, so the NAK's PSN is not before the oldest
// unacknowledged one.
TEST(RcReorderTest, ALateSequenceNakForWhatWasExecutedChangesNothing) {
  constexpr int kSends = 30, kLostSend = 10;
  TestPair pair;
  bool lose_send = true, lose_responses = true;
  rte_mbuf* copy = nullptr;
  pair.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf* frame) {
    pair.now_ns += kFrameNs;
    if (IsSequenceNak(packet) && copy == nullptr) {
      copy = rte_pktmbuf_copy(frame, pair.b.pool, 0, UINT32_MAX);
    }
    const bool lost = packet.info->operation == Operation::kReadResponse ? lose_responses
                      : packet.bth.psn == Psn(TestPair::DefaultAttr().sq_psn) + kLostSend
                          ? std::exchange(lose_send, false)
                          : false;
    return lost ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  PostReadAndSends(pair, kSends);
  pair.Run();
  ASSERT_EQ(pair.b.Poll().size(), size_t{kSends});
  ASSERT_TRUE(pair.a.Poll().empty());
  ASSERT_NE(copy, nullptr);
  const Counters before = pair.a.counters;
  pair.b.outgoing.push_back(copy);
  pair.Run();
  EXPECT_EQ(pair.a.counters.rcvd_seq_err, before.rcvd_seq_err + 1);
  EXPECT_EQ(pair.a.counters.completer_retry_err, before.completer_retry_err);
  EXPECT_EQ(pair.a.counters.retransmitted_pkts, before.retransmitted_pkts);
  lose_responses = false;
  pair.RunToEnd();
  EXPECT_EQ(pair.a.Poll().size(), 1u + kSends);
}

// On a network with several paths. The peer is in the error state then, and repeats nothing.
TEST(RcReorderTest, ANakThatOvertakesAReadResponseFailsItsRequest) {
  TestPair pair;
  rte_mbuf* late = nullptr;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a) return PacketAction::kDeliver;
    if (packet.info->operation == Operation::kReadResponse && late == nullptr) {
      late = rte_pktmbuf_copy(frame, pair.b.pool, 0, UINT32_MAX);
      return PacketAction::kDrop;
    }
    if (packet.info->operation == Operation::kAck) pair.b.outgoing.push_back(late);
    return PacketAction::kDeliver;
  };
  const auto remote = reinterpret_cast<uint64_t>(pair.b.memory.data());
  pair.a.PostSend(IBV_WR_RDMA_READ, 1, pair.a.memory.data(), 64, remote, pair.b.key);
  pair.a.PostSend(IBV_WR_RDMA_WRITE, 2, pair.a.memory.data(), 64, remote, pair.b.key ^ 0x100);
  pair.Run();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 2u) << "without any time-out";
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(all[0].status);
  EXPECT_EQ(all[1].status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(all[1].status);
}

// The first response to the second READ comes when both READs have been requested again: it does
// not show that the repetition of the first one is lost.
TEST(RcReorderTest, ALateResponseUsesUpNoRetryOfAnOlderRead) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.retry_cnt = 1;
  TestPair pair(IBV_QPT_RC, &attr);
  const auto read = [&pair](uint64_t wr_id) {
    pair.a.PostSend(IBV_WR_RDMA_READ, wr_id, pair.a.memory.data(), 64,
                    reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  };
  pair.hook = [&pair](bool, const wire::RocePacket&, rte_mbuf*) {
    pair.now_ns += kFrameNs;
    return PacketAction::kDeliver;
  };
  read(0);  // by which the round trip is known
  pair.Run();
  ASSERT_EQ(pair.a.Poll().size(), 1u);
  int responses = 0;
  rte_mbuf* late = nullptr;
  pair.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf* frame) {
    if (from_a && late != nullptr && responses == 3) {
      pair.b.outgoing.push_back(std::exchange(late, nullptr));
    } else if (!from_a && ++responses < 3) {
      if (responses == 2) late = rte_pktmbuf_copy(frame, pair.b.pool, 0, UINT32_MAX);
      return PacketAction::kDrop;
    }
    return PacketAction::kDeliver;
  };
  for (uint64_t wr_id = 1; wr_id <= 3; ++wr_id) read(wr_id);
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 3u);
  for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  EXPECT_EQ(pair.a.counters.completer_retry_err, 1u);
}

// Every twentieth packet is lost: what is sent to be thrown away is bounded.
TEST(RcFlightTest, RetransmissionsOnALossyLinkAreBounded) {
  constexpr uint32_t kWrites = 4, kWritePackets = 600;
  TestPair pair;
  uint32_t sent = 0;
  pair.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    pair.now_ns += kFrameNs;
    return from_a && ++sent % 20 == 0 ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  for (uint32_t i = 1; i <= kWrites; ++i) {
    pair.a.PostSend(IBV_WR_RDMA_WRITE, i, pair.a.memory.data(), kWritePackets * 1024,
                    reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  }
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), kWrites);
  for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_LT(sent, 3 * kWrites * kWritePackets);
}

// Packets of both directions are lost, NAKs and acknowledgements too.
class RcLossyFlightTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kWrites = 4, kWritePackets = 600;
  // How long all of it takes; one in `lose_every` is lost, 0: none.
  uint64_t Took(uint32_t lose_every) {
    TestPair pair;
    Random random(7);
    // By which the round trip is known.
    pair.a.PostSend(IBV_WR_RDMA_WRITE, 0, pair.a.memory.data(), 1,
                    reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
    pair.Run();
    EXPECT_EQ(pair.a.Poll().size(), 1u);
    pair.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
      pair.now_ns += kFrameNs;
      return lose_every != 0 && random.Below(lose_every) == 0 ? PacketAction::kDrop
                                                              : PacketAction::kDeliver;
    };
    const uint64_t start_ns = pair.now_ns;
    for (uint32_t i = 1; i <= kWrites; ++i) {
      pair.a.PostSend(IBV_WR_RDMA_WRITE, i, pair.a.memory.data(), kWritePackets * 1024,
                      reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
    }
    std::vector<ibv_wc> all;
    pair.Run();
    for (bool waits = true; all.size() < kWrites && waits; waits = pair.Wait()) {
      for (const ibv_wc& wc : pair.a.Poll()) all.push_back(wc);
    }
    EXPECT_EQ(all.size(), kWrites);
    for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.counters.local_ack_timeout_err, 0u);
    return pair.now_ns - start_ns;
  }
};

// A NAK that is lost, or an answer to the last of a flight, stops it for a short probe.
TEST_F(RcLossyFlightTest, StallsAreShort) {
  // In virtual time. With probes of kMinProbeNs it would be more than eight times as long.
  EXPECT_LT(Took(20), 4 * Took(0));
}

// One message at a time, each of which nothing follows that could show it to be lost.
class RcSingleMessagesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kHopNs = 5'000;
  RcSingleMessagesTest() {
    pair_.hook = [this](bool from_a, const wire::RocePacket&, rte_mbuf*) {
      pair_.now_ns += kHopNs;
      const bool lost = from_a && lose_next_;
      lose_next_ &= !from_a;
      return lost ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    for (int i = 0; i < 20; ++i) Took(false);  // the round trip is known
  }
  // Until one message is acknowledged.
  uint64_t Took(bool lost) {
    lose_next_ = lost;
    const uint64_t start_ns = pair_.now_ns;
    pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 64,
                     reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
    pair_.Run();
    while (pair_.a.cq.size() == 0) EXPECT_TRUE(pair_.Wait());
    EXPECT_EQ(pair_.a.Poll().size(), 1u);
    return pair_.now_ns - start_ns;
  }
  TestPair pair_;
  bool lose_next_ = false;
};

TEST_F(RcSingleMessagesTest, ALaterLossIsFoundSoonerThanTheFirst) {
  EXPECT_GE(Took(true), RetransmissionTimeout::kMinProbeNs);
  for (int i = 0; i < 10; ++i) Took(false);
  EXPECT_LT(Took(true), RetransmissionTimeout::kMinProbeNs / 4);
  // Whoever loses none for a while waits again as long as a machine may stand still.
  for (uint32_t i = 0; i < 2 * RcRequester::kMaxInFlight; ++i) Took(false);
  EXPECT_GE(Took(true), RetransmissionTimeout::kMinProbeNs);
}

// The answer comes long after the probe, with everything that the peer has not run for.
TEST_F(RcSingleMessagesTest, AStalledPeerDoesNotCountAsALoss) {
  constexpr uint64_t kStandstillNs = RetransmissionTimeout::kMinProbeNs * 3 / 2;
  for (int i = 0; i < 4; ++i) {
    rte_mbuf* held = nullptr;
    const auto hook =
        std::exchange(pair_.hook, [&](bool, const wire::RocePacket&, rte_mbuf* frame) {
          if (held == nullptr) held = rte_pktmbuf_copy(frame, pair_.a.pool, 0, UINT32_MAX);
          return PacketAction::kDrop;
        });
    pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 64,
                     reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
    pair_.Run();
    const uint64_t probes = pair_.a.counters.tail_probes;
    while (pair_.a.counters.tail_probes == probes) ASSERT_TRUE(pair_.Wait());
    pair_.now_ns += kStandstillNs - RetransmissionTimeout::kMinProbeNs;
    pair_.hook = hook;
    pair_.a.outgoing.push_back(held);
    pair_.Run();
    ASSERT_EQ(pair_.a.Poll().size(), 1u);
  }
  EXPECT_GE(Took(true), RetransmissionTimeout::kMinProbeNs);
}

// A peer that does not run for a while has got all that was sent. When it runs again it answers
// that first, and then the probe.
class RcStandstillTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRoundTripNs = 100'000;
  static constexpr uint32_t kFlight = 96;  // packets, all of which may be under way
  static_assert(kFlight < RcRequester::kMaxInFlight);
  RcStandstillTest() {
    pair_.hook = [this](bool, const wire::RocePacket&, rte_mbuf*) {
      pair_.now_ns += kRoundTripNs / 2;
      return PacketAction::kDeliver;
    };
    Write(1);  // the round trip is known
    pair_.Run();
    pair_.hook = [this](bool from_a, const wire::RocePacket&, rte_mbuf* frame) {
      pair_.now_ns += kFrameNs;
      if (!from_a) return PacketAction::kDeliver;
      if (arriving_ > 0) {
        --arriving_;
        return PacketAction::kDeliver;
      }
      held_.push_back(rte_pktmbuf_copy(frame, pair_.a.pool, 0, UINT32_MAX));
      return PacketAction::kDrop;
    };
  }
  ~RcStandstillTest() override {
    for (rte_mbuf* frame : held_) rte_pktmbuf_free(frame);
  }
  void Write(uint32_t bytes) {
    pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), bytes,
                     reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  }
  // Until the first probe is on its way, too.
  void WaitForProbe(size_t flight = kFlight) {
    pair_.Run();
    while (pair_.a.counters.tail_probes == 0) ASSERT_TRUE(pair_.Wait());
    ASSERT_EQ(held_.size(), flight + 1);
  }
  // So many of those that wait arrive.
  void Arrive(size_t count) {
    arriving_ = count;
    for (; count > 0; --count) {
      pair_.a.outgoing.push_back(held_.front());
      held_.pop_front();
    }
    pair_.Run();
  }
  TestPair pair_;
  size_t arriving_ = 0;
  std::deque<rte_mbuf*> held_;
};

TEST_F(RcStandstillTest, OnlyTheProbeIsResent) {
  Write(kFlight * 1024);
  WaitForProbe();
  for (uint32_t some = 0; some < 3; ++some) Arrive(kFlight / 3);
  Arrive(held_.size());
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 2u);
  EXPECT_EQ(pair_.a.counters.retransmitted_pkts, 1u);
}

// The last packets were lost beside: they are sent again a round trip after the last answer.
TEST_F(RcStandstillTest, PacketsLostDuringAStandstillAreResentSoon) {
  Write(kFlight * 1024);
  WaitForProbe();
  const uint64_t start_ns = pair_.now_ns;
  constexpr uint32_t kArrive = kFlight - 10;
  Arrive(kArrive);
  for (; held_.size() > 1; held_.pop_front()) rte_pktmbuf_free(held_.front());
  Arrive(1);
  arriving_ = SIZE_MAX;
  while (pair_.a.cq.size() < 2) ASSERT_TRUE(pair_.Wait());
  EXPECT_LT(pair_.now_ns - start_ns, 4 * kRoundTripNs);
  EXPECT_LE(pair_.a.counters.retransmitted_pkts, 1u + kFlight - kArrive);
  EXPECT_EQ(pair_.a.counters.tail_probes, 1u);
}

// Answers to all that was under way say that nothing was lost: of what follows, which stands still
// too, one packet is sent again.
TEST_F(RcStandstillTest, AfterACompleteAnswerOnlyTheNextProbeIsResent) {
  for (int i = 0; i < 4; ++i) Write(kFlight * 1024);
  WaitForProbe(RcRequester::kMaxInFlight);
  Arrive(held_.size());
  ASSERT_FALSE(held_.empty());
  ASSERT_EQ(pair_.a.counters.retransmitted_pkts, 1u);
  while (pair_.a.counters.retransmitted_pkts == 1) ASSERT_TRUE(pair_.Wait());
  EXPECT_EQ(pair_.a.counters.retransmitted_pkts, 2u);
  EXPECT_EQ(pair_.a.counters.tail_probes, 2u);
}

// One packet is lost, and then for a while everything: probes go on for as long.
TEST(RcProbeTest, ProbesContinueThroughAnOutage) {
  constexpr uint64_t kOutageNs = 15'000'000;
  TestPair pair;
  int sent = 0;
  uint64_t until_ns = 0;
  pair.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    pair.now_ns += kFrameNs;
    constexpr int kLost = 5;
    const bool lost = (from_a && sent++ == kLost) || pair.now_ns < until_ns;
    return lost ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  const auto write = [&](uint32_t bytes) {
    pair.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair.a.memory.data(), bytes,
                    reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(all[0].status);
  };
  write(1);  // the round trip is known
  write(kLostBytes);
  EXPECT_EQ(pair.a.counters.rcvd_seq_err, 1u);
  until_ns = pair.now_ns + kOutageNs;
  write(1);
  EXPECT_GT(pair.now_ns, until_ns);
  EXPECT_EQ(pair.a.counters.local_ack_timeout_err, 0u);
}

// Nothing is sent after the read, whose time-outs had been stopped to send from the SEND on.
TEST(RcRepetitionTest, ALostReadIsRequestedAgainIfNothingCanBeSentAfterIt) {
  TestPair pair;
  bool lost = true;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    return lost && !from_a && packet.info->operation == Operation::kReadResponse
               ? PacketAction::kDrop
               : PacketAction::kDeliver;
  };
  uint8_t* const memory = pair.a.memory.data();
  const uint64_t remote = reinterpret_cast<uint64_t>(pair.b.memory.data());
  ASSERT_EQ(pair.a.PostSend(IBV_WR_RDMA_READ, 1, memory, 100, remote, pair.b.key), 0);
  const uint32_t whole = pair.a.key;
  pair.a.key = pair.a.regions.Register(&pair.a.pd, memory + 200, 10, 0)->key;
  ASSERT_EQ(pair.a.PostSend(IBV_WR_SEND, 2, memory + 200, 10), 0);
  pair.Run();
  // The first RNR NAK shows that the response is lost, and the READ is requested again at once.
  while (pair.a.counters.rcvd_rnr_err < 2) ASSERT_TRUE(pair.Wait());
  ASSERT_TRUE(pair.a.regions.Deregister(pair.a.key).ok());
  pair.a.key = whole;
  lost = false;
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].status, IBV_WC_LOC_PROT_ERR);
}

// The memory of what a probe would send again is gone: the queue pair fails, and nothing that was
// flushed is sent any more.
TEST(RcProbeTest, NothingIsSentAfterAProbeFails) {
  TestPair pair;
  int sent = 0;
  pair.hook = [&](bool, const wire::RocePacket&, rte_mbuf*) {
    ++sent;
    return PacketAction::kDrop;
  };
  // More than may be in flight: some of it is still to be sent.
  for (uint64_t i = 1; i <= 2; ++i) {
    pair.a.PostSend(IBV_WR_SEND, i, pair.a.memory.data(), RcRequester::kMaxInFlight * 1024);
  }
  pair.Run();
  EXPECT_EQ(sent, static_cast<int>(RcRequester::kMaxInFlight));
  ASSERT_TRUE(pair.a.regions.Deregister(pair.a.key).ok());
  sent = 0;
  pair.RunToEnd();
  EXPECT_EQ(sent, 0);
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(all[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.counters.rdma_sends, 0u);
}

}  // namespace
}  // namespace pollux::transport
