// Long READs: several requests on the wire, and what a lost packet of them costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "stack/transport/test_pair.h"

namespace pollux::transport {
namespace {

using wire::Operation;

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kPackets = 700;
constexpr uint32_t kBytes = kPackets * kMtu - 100;

class RcReadTest : public ::testing::TestWithParam<uint8_t> {
 protected:
  static ibv_qp_attr Attr() {
    ibv_qp_attr attr = TestPair::DefaultAttr();
    attr.max_rd_atomic = attr.max_dest_rd_atomic = GetParam();
    return attr;
  }
  void ExpectARequestAmongResponses(const std::function<void()>& at_response);
  RcReadTest() {
    for (uint32_t i = 0; i < kBytes; ++i) {
      pair_.b.memory[i] = static_cast<uint8_t>(i * 13 + i / 700);
    }
    pair_.hook = [this](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
      pair_.now_ns += 1'000;
      if (packet.info->operation == Operation::kReadRequest) OnRequest(packet);
      responses_ += packet.info->operation == Operation::kReadResponse;
      return lose(from_a, packet) ? PacketAction::kDrop : PacketAction::kDeliver;
    };
  }
  // What every request must keep to, repeated ones as well.
  void OnRequest(const wire::RocePacket& packet) {
    const wire::Reth reth = packet.reth();
    const uint32_t begin = static_cast<uint32_t>(Distance(first_, packet.bth.psn));
    const uint32_t packets = (reth.length + kMtu - 1) / kMtu;
    EXPECT_EQ(reth.address, reinterpret_cast<uint64_t>(pair_.b.memory.data()) + begin * kMtu);
    EXPECT_LE(packets, ReadRequestPackets(GetParam(), kMtu));
    // Within one request as it was first asked.
    const auto after = starts_.upper_bound(begin);
    if (after == starts_.begin() || std::prev(after)->second <= begin) {
      starts_[begin] = begin + packets;
      restarts_[begin] = begin;
    } else {
      const auto [start, end] = *std::prev(after);
      EXPECT_LE(begin + packets, end);
      // Linux drops what starts before an earlier repetition.
      EXPECT_GE(begin, restarts_[start]);
      restarts_[start] = begin;
    }
  }
  void Read() {
    pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data(), kBytes,
                     reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(all[0].status);
    EXPECT_EQ(all[0].byte_len, kBytes);
    EXPECT_TRUE(std::equal(pair_.a.memory.begin(), pair_.a.memory.begin() + kBytes,
                           pair_.b.memory.begin()));
  }
  std::function<bool(bool from_a, const wire::RocePacket&)> lose = [](bool, const auto&) {
    return false;
  };
  const ibv_qp_attr attr_ = Attr();
  TestPair pair_{IBV_QPT_RC, &attr_};
  const Psn first_ = Psn(attr_.sq_psn);
  uint32_t responses_ = 0;
  std::map<uint32_t, uint32_t> starts_;    // requests as they were first asked: begin to end
  std::map<uint32_t, uint32_t> restarts_;  // by begin: where the latest repetition starts
};

INSTANTIATE_TEST_SUITE_P(Depths, RcReadTest, ::testing::Values(1, 2, 16, 128));

TEST_P(RcReadTest, ALongReadIsSplitIntoBoundedRequests) {
  Read();
  EXPECT_EQ(responses_, kPackets);
  const uint32_t most = ReadRequestPackets(GetParam(), kMtu);
  EXPECT_EQ(starts_.size(), (kPackets + most - 1) / most);
  EXPECT_EQ(pair_.a.counters.retransmitted(), 0u);
  EXPECT_EQ(pair_.b.counters.retransmitted(), 0u);
}

TEST_P(RcReadTest, OutstandingPacketsStayWithinTheWindow) {
  uint32_t asked = 0, most = 0;
  lose = [&](bool from_a, const wire::RocePacket& packet) {
    if (from_a) {
      asked += (packet.reth().length + kMtu - 1) / kMtu;
      most = std::max(most, asked - responses_);
    }
    return false;
  };
  Read();
  EXPECT_EQ(asked, kPackets);
  EXPECT_LE(most, ReadWindow(kMtu));
  EXPECT_GT(most, ReadWindow(kMtu) / 2);
}

TEST_P(RcReadTest, OnlyALostResponseIsResent) {
  std::set<uint32_t> lost = {0, 31, 40, 41, 250, 256, kPackets - 2};
  lose = [&](bool from_a, const wire::RocePacket& packet) {
    return !from_a && lost.erase(static_cast<uint32_t>(Distance(first_, packet.bth.psn))) > 0;
  };
  const uint32_t losses = static_cast<uint32_t>(lost.size());
  Read();
  EXPECT_EQ(responses_, kPackets + losses);
  EXPECT_EQ(pair_.b.counters.retransmitted_responses, losses);
  EXPECT_EQ(pair_.a.counters.tail_probes, 0u);
}

TEST_P(RcReadTest, ALostRequestIsResent) {
  int requests = 0;
  lose = [&](bool from_a, const wire::RocePacket&) { return from_a && ++requests == 2; };
  Read();
  EXPECT_EQ(responses_, kPackets);
}

TEST_P(RcReadTest, ALostRepetitionIsResent) {
  std::map<uint32_t, int> times;
  lose = [&](bool from_a, const wire::RocePacket& packet) {
    const uint32_t number = static_cast<uint32_t>(Distance(first_, packet.bth.psn));
    return !from_a && number % 100 == 7 && ++times[number] <= 3;
  };
  Read();
  EXPECT_EQ(responses_, kPackets + 3 * 7);
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u);
}

TEST_P(RcReadTest, ALostLastResponseIsResent) {
  int times = 0;
  lose = [&](bool from_a, const wire::RocePacket& packet) {
    return !from_a && packet.bth.psn == first_ + (kPackets - 1) && ++times <= 3;
  };
  Read();
  EXPECT_EQ(responses_, kPackets + 3);
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u);
}

// One frame in ten, of either direction, for any seed: hardly more than what was lost is sent
// again.
TEST_P(RcReadTest, SurvivesTenPercentLoss) {
  Random random(GetParam());
  lose = [&](bool, const wire::RocePacket&) { return random.Chance(0.1); };
  Read();
  EXPECT_GT(responses_, kPackets);
  EXPECT_LT(responses_, kPackets * 5 / 4);
  EXPECT_EQ(pair_.b.counters.retransmitted_responses, responses_ - kPackets);
  EXPECT_EQ(pair_.a.counters.local_ack_timeout_err, 0u);
}

// A peer that executes one SEND after another is there, though every one is lost once and an answer
// from before them stays missing: more losses than retries do not end the connection.
TEST_P(RcReadTest, LossesAfterAMissingResponseDoNotCountAsItsRetries) {
  constexpr uint64_t kSends = 14, kLost = 10;
  static_assert(kLost > 8, "more than all retries");
  pair_.a.PostSend(IBV_WR_RDMA_READ, 0, pair_.a.memory.data(), 100,
                   reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  for (uint64_t i = 1; i <= kSends; ++i) {
    pair_.b.PostRecv(i, pair_.b.memory.data() + (1 << 19), 100);
    pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data(), 100);
  }
  // The READ has the first PSN, SEND number n the n-th behind it.
  int32_t next_lost = 1;
  std::set<int32_t> naks;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    pair_.now_ns += 1'000;
    const int32_t number = Distance(first_, packet.bth.psn);
    if (packet.info->operation == Operation::kReadResponse && naks.size() < kLost) {
      return PacketAction::kDrop;
    }
    if (packet.info->operation == Operation::kAck &&
        packet.aeth().syndrome == wire::kNakPsnSequence && naks.insert(number).second &&
        naks.size() < kLost) {
      next_lost = number + 1;
    }
    if (!from_a || number != next_lost) return PacketAction::kDeliver;
    next_lost = -1;
    return PacketAction::kDrop;
  };
  pair_.RunToEnd();
  EXPECT_EQ(naks.size(), kLost) << "each at another PSN";
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 1 + kSends);
  for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << wc.wr_id;
}

// Posts a SEND of the responder's program after the first of many responses, and expects that it is
// sent after at most three turns of responses. `at_response` is called for each response before it.
void RcReadTest::ExpectARequestAmongResponses(const std::function<void()>& at_response) {
  constexpr int kTurnPackets = 32;
  bool posted = false, sent = false;
  int responses = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (!from_a && packet.info->operation == Operation::kReadResponse) {
      if (!std::exchange(posted, true)) {
        pair_.b.PostSend(IBV_WR_SEND, 9, pair_.b.memory.data(), 8);
      }
      responses += sent ? 0 : 1;
      if (!sent) at_response();
    }
    sent |= !from_a && packet.info->operation == Operation::kSend;
    return PacketAction::kDeliver;
  };
  pair_.a.PostRecv(9, pair_.a.memory.data() + 1'000'000, 8);
  for (int i = 0; i < 4; ++i) {
    pair_.a.PostSend(IBV_WR_RDMA_READ, i, pair_.a.memory.data(), 200'000,
                     reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
  }
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 5u);
  EXPECT_TRUE(sent);
  EXPECT_LE(responses, 3 * kTurnPackets);
}

// Of the other direction, while a turn's packets do not suffice for all responses.
TEST_P(RcReadTest, RequestsAreSentBetweenTheResponses) {
  ExpectARequestAmongResponses([] {});
}

// With DCQCN a queue pair may be active before its rate allows a packet.
TEST_P(RcReadTest, RequestsAreSentBetweenTheResponsesAfterTurnsWithoutRoom) {
  ExpectARequestAmongResponses([this] {
    PollContext context = pair_.b.context(pair_.now_ns);
    pair_.b.endpoint->Transmit(context, 0);
  });
}

// SENDs among them complete in the order posted, and are not sent again for a lost READ response.
TEST_P(RcReadTest, SendsBetweenReadsAreSentOnce) {
  Random random(GetParam());
  lose = [&](bool, const wire::RocePacket& packet) {
    return packet.info->operation == Operation::kReadResponse && random.Chance(0.1);
  };
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds; ++i) {
    pair_.b.PostRecv(i, pair_.b.memory.data() + (1 << 19), 2000);
    pair_.a.PostSend(IBV_WR_RDMA_READ, 2 * i, pair_.a.memory.data(), 10'000,
                     reinterpret_cast<uint64_t>(pair_.b.memory.data()), pair_.b.key);
    pair_.a.PostSend(IBV_WR_SEND, 2 * i + 1, pair_.a.memory.data(), 2000);
  }
  pair_.hook = [this](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    return lose(from_a, packet) ? PacketAction::kDrop : PacketAction::kDeliver;
  };
  int sends = 0;
  const auto hook = pair_.hook;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    sends += from_a && packet.info->operation == Operation::kSend;
    return hook(from_a, packet, frame);
  };
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), 2u * kRounds);
  for (uint64_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].wr_id, i);
    EXPECT_EQ(all[i].status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(sends, 2 * kRounds);
  EXPECT_EQ(pair_.a.counters.rdma_sends, static_cast<uint64_t>(kRounds));
}

}  // namespace
}  // namespace pollux::transport
