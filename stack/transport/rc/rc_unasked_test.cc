// Messages that do not ask for an acknowledgement, at both ends.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

class RcUnaskedTest : public ::testing::Test {
 protected:
  explicit RcUnaskedTest(const ibv_qp_attr* attr = nullptr) : pair_(IBV_QPT_RC, attr) {
    pair_.hook = [this](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
      if (from_a) {
        ++sent_;
        if (packet.bth.ack_request) asked_.insert(packet.bth.psn.value());
        last_asked_ = packet.bth.ack_request;
        return sent_ == lost_ ? PacketAction::kDrop : PacketAction::kDeliver;
      }
      ++acks_;
      const bool volunteered = !asked_.contains(packet.bth.psn.value());
      return only_asked_ && volunteered ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    // The requester measures a round trip before it leaves anything to the peer.
    Send(IBV_SEND_SIGNALED);
    pair_.RunToEnd();
    pair_.a.Poll();
    pair_.b.Poll();
    sent_ = acks_ = 0;
  }

  void Send(int flags) {
    ASSERT_EQ(pair_.b.PostRecv(1, pair_.b.memory.data(), 64), 0);
    ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 64, 0, 0, flags), 0);
  }
  bool Empty() const {
    const verbs::QueuePair& qp = pair_.a.endpoint->qp;
    return qp.sq_head() == qp.sq_tail();
  }

  TestPair pair_;
  int sent_ = 0;             // packets of a
  int acks_ = 0;             // of b
  int lost_ = 0;             // the packet of a that is lost, counted from 1; 0: none
  bool only_asked_ = false;  // b acknowledges as rxe does
  bool last_asked_ = false;
  std::set<uint32_t> asked_;
};

TEST_F(RcUnaskedTest, ManyMessagesShareAnAcknowledgement) {
  constexpr int kMessages = 4 * RcResponder::kUnaskedMessages;
  for (int i = 0; i < kMessages; ++i) {
    Send(0);
    pair_.Run();
  }
  // Now and then one asks all the same: RcRequester::kAckEvery.
  EXPECT_LE(acks_, 4 + kMessages / static_cast<int>(RcRequester::kAckEvery));
  EXPECT_GE(acks_, 3);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.Poll().size(), static_cast<size_t>(kMessages));
  EXPECT_TRUE(Empty());
  EXPECT_EQ(pair_.a.counters.retransmitted_pkts, 0u);
}

TEST_F(RcUnaskedTest, TheLastMessageIsAcknowledgedBeforeTheProbe) {
  for (int i = 0; i < 3; ++i) {
    Send(0);
    pair_.Run();
  }
  EXPECT_EQ(acks_, 0);
  EXPECT_FALSE(Empty());
  pair_.RunToEnd();
  EXPECT_EQ(acks_, 1);
  EXPECT_TRUE(Empty());
  EXPECT_EQ(pair_.a.counters.tail_probes, 0u);
}

TEST_F(RcUnaskedTest, ASignaledSendRequestsAnAcknowledgement) {
  Send(IBV_SEND_SIGNALED);
  pair_.Run();
  EXPECT_EQ(pair_.a.Poll().size(), 1u);
}

TEST_F(RcUnaskedTest, ASendMayRequestAnAcknowledgementWithoutACompletion) {
  Send(verbs::kSendAskAck);
  pair_.Run();
  EXPECT_EQ(acks_, 1);
  EXPECT_TRUE(Empty());
  // Also one that is not a short message.
  ASSERT_EQ(pair_.b.PostRecv(1, pair_.b.memory.data(), 2000), 0);
  ASSERT_EQ(pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 2000, 0, 0,
                             static_cast<int>(verbs::kSendAskAck)),
            0);
  pair_.Run();
  EXPECT_EQ(acks_, 2);
  EXPECT_TRUE(Empty());
  EXPECT_TRUE(pair_.a.Poll().empty());
}

TEST_F(RcUnaskedTest, AProbeFindsALostMessage) {
  lost_ = 1;
  Send(0);
  pair_.RunToEnd();
  EXPECT_EQ(pair_.b.Poll().size(), 1u);
  EXPECT_TRUE(Empty());
  EXPECT_EQ(pair_.a.counters.tail_probes, 1u);
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u);
}

TEST_F(RcUnaskedTest, APeerThatNeverVolunteersIsSoonAskedForAcknowledgements) {
  only_asked_ = true;
  for (int i = 0; i < 40; ++i) {
    Send(0);
    pair_.RunToEnd();
    EXPECT_TRUE(Empty());
  }
  EXPECT_EQ(pair_.b.Poll().size(), 40u);
  EXPECT_TRUE(last_asked_);
  EXPECT_LE(pair_.a.counters.tail_probes, static_cast<uint64_t>(PeerAckBehavior::kTrials));
}

// Whoever posts more than the queue holds cannot wait for the peer's leisure.
TEST_F(RcUnaskedTest, AQueueMoreThanHalfFullRequestsAcknowledgements) {
  constexpr uint32_t kTurn = 32;
  const uint32_t half = pair_.a.endpoint->qp.init().cap.max_send_wr / 2;
  for (const uint32_t count : {half, half + 1}) {
    for (uint32_t i = 0; i < count; ++i) Send(0);
    asked_.clear();
    pair_.RunToEnd();
    EXPECT_TRUE(Empty());
    if (count == half) {
      EXPECT_LT(asked_.size(), kTurn);
    } else {
      EXPECT_GE(asked_.size(), kTurn);
    }
  }
}

// It waits for the answers to all before it.
TEST_F(RcUnaskedTest, MessagesBeforeALocalInvalidateRequestAnAcknowledgement) {
  ASSERT_EQ(pair_.b.PostRecv(1, pair_.b.memory.data(), 64), 0);
  ibv_sge sge{reinterpret_cast<uint64_t>(pair_.a.memory.data()), 64, pair_.a.key};
  ibv_send_wr send{}, invalidate{};
  send.opcode = IBV_WR_SEND;
  send.sg_list = &sge;
  send.num_sge = 1;
  send.next = &invalidate;
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.invalidate_rkey = 1;
  ASSERT_EQ(pair_.a.endpoint->qp.PostSend(&send, nullptr), 0);
  pair_.Run();
  EXPECT_EQ(acks_, 1);
}

class RcShortTimeoutTest : public RcUnaskedTest {
 protected:
  static const ibv_qp_attr* Attr() {
    static ibv_qp_attr attr = TestPair::DefaultAttr();
    attr.timeout = 5;  // 131 us
    return &attr;
  }
  RcShortTimeoutTest() : RcUnaskedTest(Attr()) {}
};

TEST_F(RcShortTimeoutTest, EveryMessageRequestsAnAcknowledgement) {
  Send(0);
  pair_.Run();
  EXPECT_TRUE(last_asked_);
  EXPECT_TRUE(Empty());
}

}  // namespace
}  // namespace pollux::transport
