#include "stack/transport/diagnostics/qp_diagnostics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

std::vector<FlightEntry> EntriesOf(const TestNode& node, FlightKind kind) {
  std::vector<FlightEntry> entries = node.endpoint->diagnostics().recorder().Entries();
  std::erase_if(entries, [&](const FlightEntry& entry) { return entry.kind != kind; });
  return entries;
}

TEST(QpDiagnosticsTest, QueuePairAndPortCountTheSame) {
  TestPair pair;
  int frames = 0;
  pair.hook = [&](bool from_a, const wire::RocePacket&, rte_mbuf*) {
    return from_a && ++frames % 7 == 0 ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  for (int i = 0; i < 40; ++i) {
    pair.b.PostRecv(1, pair.b.memory.data(), 1 << 13);
    pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 1 << 13);
  }
  pair.RunToEnd();
  ASSERT_EQ(pair.a.Poll().size(), 40u);
  for (const TestNode* node : {&pair.a, &pair.b}) {
    const Counters& own = node->endpoint->diagnostics().counters();
    EXPECT_EQ(own.retransmitted_pkts, node->counters.retransmitted_pkts);
    EXPECT_EQ(own.out_of_seq_request, node->counters.out_of_seq_request);
    EXPECT_EQ(own.rcvd_seq_err, node->counters.rcvd_seq_err);
    EXPECT_EQ(own.sent_seq_nak, node->counters.sent_seq_nak);
    EXPECT_EQ(own.rdma_sends, node->counters.rdma_sends);
    EXPECT_EQ(own.rdma_recvs, node->counters.rdma_recvs);
    EXPECT_EQ(own.ack_deferred, node->counters.ack_deferred);
    EXPECT_EQ(own.sent_pkts, node->counters.sent_pkts);
    EXPECT_EQ(own.drops, node->counters.drops);
  }
  EXPECT_GT(pair.a.counters.rcvd_seq_err, 0u);
  EXPECT_GT(pair.b.counters.out_of_seq_request, 0u);
  EXPECT_GT(pair.b.endpoint->diagnostics().counters().rcvd_pkts, 0u);
  // Whatever came, the payload of 40 messages was in it.
  EXPECT_GE(pair.b.endpoint->diagnostics().counters().rcvd_bytes, 40u << 13);
}

TEST(QpDiagnosticsTest, DeferredAcknowledgementsAreCounted) {
  TestPair pair;
  for (int i = 0; i < 10; ++i) {
    pair.b.PostRecv(1, pair.b.memory.data(), 64);
    pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  }
  pair.RunToEnd();
  const Counters& own = pair.b.endpoint->diagnostics().counters();
  EXPECT_EQ(own.sent_pkts + own.ack_deferred, 10u) << "each message asked for one";
  EXPECT_GT(own.ack_deferred, 0u);
}

TEST(QpDiagnosticsTest, TheFailureStatusIsRecorded) {
  TestPair pair;
  pair.hook = [](bool, const wire::RocePacket&, rte_mbuf*) { return PacketAction::kDrop; };
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  EXPECT_FALSE(pair.a.endpoint->TakeFailure());
  pair.RunToEnd();
  EXPECT_EQ(pair.a.endpoint->diagnostics().failure(), IBV_WC_RETRY_EXC_ERR);
  const auto failed = EntriesOf(pair.a, FlightKind::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].code, IBV_WC_RETRY_EXC_ERR);
  const auto timers = EntriesOf(pair.a, FlightKind::kTimer);
  EXPECT_GE(std::ranges::count(timers, static_cast<uint8_t>(FlightTimer::kAckTimeout),
                               &FlightEntry::code),
            8);
  EXPECT_EQ(EntriesOf(pair.a, FlightKind::kQpState).back().code, IBV_QPS_ERR);
  EXPECT_TRUE(pair.a.endpoint->TakeFailure());
  EXPECT_FALSE(pair.a.endpoint->TakeFailure()) << "once";
}

TEST(QpDiagnosticsTest, AResponderFailureIsRecorded) {
  TestPair pair;
  // A WRITE to memory that has no such key.
  pair.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair.a.memory.data(), 64,
                  reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key + 1);
  pair.RunToEnd();
  EXPECT_TRUE(pair.b.endpoint->TakeFailure());
  EXPECT_EQ(pair.b.endpoint->diagnostics().failure(), IBV_WC_SUCCESS)
      << "no work request of its own";
  const auto events = EntriesOf(pair.b, FlightKind::kEvent);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].code, IBV_EVENT_QP_ACCESS_ERR);
  const auto sent = EntriesOf(pair.b, FlightKind::kSent);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].detail, wire::kNakRemoteAccess);
  EXPECT_EQ(pair.a.endpoint->diagnostics().failure(), IBV_WC_REM_ACCESS_ERR);
}

TEST(QpDiagnosticsTest, MovingToErrIsNotAFailure) {
  TestPair pair;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  PollContext context = pair.a.context(pair.now_ns);
  ASSERT_TRUE(pair.a.endpoint->Modify(attr, IBV_QP_STATE, context).ok());
  EXPECT_FALSE(pair.a.endpoint->TakeFailure());
  EXPECT_EQ(EntriesOf(pair.a, FlightKind::kQpState).back().code, IBV_QPS_ERR);
}

TEST(QpDiagnosticsTest, DroppedPacketsAreRecorded) {
  TestPair pair;
  bool damaged = false;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a && !std::exchange(damaged, true)) {
      rte_pktmbuf_mtod(frame, uint8_t*)[packet.payload_offset] ^= 1;
    }
    return PacketAction::kDeliver;
  };
  pair.b.PostRecv(1, pair.b.memory.data(), 64);
  pair.a.PostSend(IBV_WR_SEND, 1, pair.a.memory.data(), 64);
  pair.RunToEnd();
  ASSERT_EQ(pair.a.Poll().size(), 1u);
  const auto dropped = EntriesOf(pair.b, FlightKind::kDropped);
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].detail, static_cast<uint16_t>(Drop::kBadIcrc));
  EXPECT_EQ(pair.b.endpoint->diagnostics().counters().drop(Drop::kBadIcrc), 1u);
}

}  // namespace
}  // namespace pollux::transport
