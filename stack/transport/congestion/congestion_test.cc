// Congestion control end to end between two queue pairs: marks, notifications, rates.
#include <gtest/gtest.h>

#include <algorithm>

#include "stack/transport/test_pair.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"

namespace pollux::transport {
namespace {

using wire::Operation;

const DcqcnParameters kOn = {.rpg_max_rate = 10'000};

// As a switch does: IPv4, with the header checksum made right again.
void MarkCe(const wire::RocePacket& packet, rte_mbuf* frame) {
  uint8_t* ip = rte_pktmbuf_mtod(frame, uint8_t*) + packet.l3_offset;
  ip[wire::ipv4::kTos] |= wire::kCe;
  wire::UpdateIpv4Checksum(ip);
}

class CongestionTest : public ::testing::TestWithParam<ibv_qp_type> {
 protected:
  // `a` sends, b answers. Returns the work requests that completed well.
  size_t Transfer(TestPair& pair, uint32_t bytes, int count = 1) {
    if (GetParam() == IBV_QPT_UD) {
      pair.a.endpoint->qp.SetPortMtu(IBV_MTU_1024);
      bytes = std::min(bytes, pair.a.endpoint->qp.PathMtuBytes());
    }
    for (int i = 0; i < count; ++i) {
      pair.b.PostRecv(1, pair.b.memory.data(), bytes + 40);
      ibv_sge sge{reinterpret_cast<uint64_t>(pair.a.memory.data()), bytes, pair.a.key};
      ibv_send_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
      if (GetParam() == IBV_QPT_UD) {
        wr.wr.ud.ah = &pair.a.endpoint->qp.path;
        wr.wr.ud.remote_qpn = pair.b.endpoint->qp.qpn().value;
        wr.wr.ud.remote_qkey = TestPair::DefaultAttr().qkey;
      }
      EXPECT_EQ(pair.a.endpoint->qp.PostSend(&wr, nullptr), 0);
    }
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    return static_cast<size_t>(std::count_if(
        all.begin(), all.end(), [](const ibv_wc& wc) { return wc.status == IBV_WC_SUCCESS; }));
  }
};

INSTANTIATE_TEST_SUITE_P(Types, CongestionTest,
                         ::testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD));

TEST_P(CongestionTest, OnlyDataIsEcnCapable) {
  for (const bool on : {false, true}) {
    TestPair pair(GetParam(), nullptr, false, on ? &kOn : nullptr);
    int data = 0;
    pair.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf*) {
      const bool capable = on && packet.payload_length > 0;
      EXPECT_EQ(packet.ecn, capable ? wire::kEct0 : wire::kNotEct) << packet.info->name;
      data += packet.payload_length > 0;
      return PacketAction::kDeliver;
    };
    EXPECT_EQ(Transfer(pair, 5'000), 1u);
    EXPECT_EQ(Transfer(pair, 100), 1u);
    EXPECT_GT(data, 1);
  }
}

TEST_P(CongestionTest, ACeMarkIsAnsweredByACnpThatSlowsTheSender) {
  TestPair pair(GetParam(), nullptr, false, &kOn);
  int cnps = 0;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a) MarkCe(packet, frame);
    cnps += packet.info->operation == Operation::kCnp;
    return PacketAction::kDeliver;
  };
  EXPECT_EQ(Transfer(pair, 500), 1u);
  EXPECT_EQ(cnps, 1);
  EXPECT_EQ(pair.b.counters.np_ecn_marked_roce_packets, 1u);
  EXPECT_EQ(pair.b.counters.np_cnp_sent, 1u);
  EXPECT_EQ(pair.a.counters.rp_cnp_handled, 1u);
  EXPECT_EQ(pair.a.counters.rp_cnp_ignored, 0u);

  // At half the maximum, and rising: 200 KB last longer than at the maximum, and not twice as long.
  const uint64_t start = pair.now_ns;
  constexpr int kMessages = 200;
  pair.hook = nullptr;
  EXPECT_EQ(Transfer(pair, 1'000, kMessages), static_cast<size_t>(kMessages));
  const uint64_t at_maximum_ns = uint64_t{kMessages} * 1'000 * 8'000 / kOn.rpg_max_rate;
  EXPECT_GT(pair.now_ns - start, at_maximum_ns);
  EXPECT_LT(pair.now_ns - start, at_maximum_ns * 5 / 2);
}

TEST_P(CongestionTest, WhenOffMarksAreNotAnswered) {
  TestPair pair(GetParam());
  const uint64_t start = pair.now_ns;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a) MarkCe(packet, frame);
    EXPECT_NE(packet.info->operation, Operation::kCnp);
    return PacketAction::kDeliver;
  };
  EXPECT_EQ(Transfer(pair, 5'000), 1u);
  EXPECT_GT(pair.b.counters.np_ecn_marked_roce_packets, 0u);
  EXPECT_EQ(pair.b.counters.np_cnp_sent, 0u);
  EXPECT_EQ(pair.now_ns, start) << "no time has passed";
}

TEST_P(CongestionTest, ASenderWithoutDcqcnIgnoresCnps) {
  TestPair pair(GetParam());
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (!from_a) return PacketAction::kDeliver;
    // b answers as one that has it on.
    MarkCe(packet, frame);
    const auto* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
    wire::RocePacket marked;
    EXPECT_EQ(wire::ParseRocePacket(bytes, frame->data_len, &marked), wire::ParseResult::kOk);
    QpDiagnostics diagnostics;
    NotificationPoint point(&kOn, &diagnostics);
    PollContext context = pair.b.context(pair.now_ns);
    point.OnMarked(marked, Qpn{0x222}, Qpn{0x111}, context);
    return PacketAction::kDeliver;
  };
  EXPECT_EQ(Transfer(pair, 500), 1u);
  EXPECT_EQ(pair.a.counters.rp_cnp_ignored, 1u);
  EXPECT_EQ(pair.a.counters.rp_cnp_handled, 0u);
}

// A CNP with every frame, as fast as they come: slow, but all of it arrives.
TEST_P(CongestionTest, AFloodOfCnpsDoesNotStall) {
  DcqcnParameters parameters = kOn;
  parameters.min_time_between_cnps = 0;
  parameters.rate_reduce_monitor_period = 0;
  TestPair pair(GetParam(), nullptr, false, &parameters);
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a) MarkCe(packet, frame);
    return PacketAction::kDeliver;
  };
  EXPECT_EQ(Transfer(pair, 1'000, 100), 100u);
  EXPECT_GT(pair.a.counters.rp_cnp_handled, 90u);
  EXPECT_EQ(pair.a.counters.local_ack_timeout_err, 0u);
  EXPECT_EQ(pair.a.counters.retransmitted(), 0u);
}

TEST_P(CongestionTest, InvalidCnpsAreDropped) {
  for (const bool connected_only : {false, true}) {
    if (connected_only && GetParam() == IBV_QPT_UD) continue;
    TestPair pair(GetParam(), nullptr, false, &kOn);
    pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (from_a) {
        MarkCe(packet, frame);
      } else if (packet.info->operation == Operation::kCnp) {
        uint8_t* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
        if (connected_only) {
          bytes[packet.l3_offset + wire::ipv4::kSource + 3] ^= 1;
          wire::UpdateIpv4Checksum(bytes + packet.l3_offset);
        } else {
          bytes[packet.payload_offset] ^= 1;
        }
      }
      return PacketAction::kDeliver;
    };
    EXPECT_EQ(Transfer(pair, 500), 1u);
    EXPECT_EQ(pair.a.counters.drop(connected_only ? Drop::kBadAddress : Drop::kBadIcrc), 1u);
    EXPECT_EQ(pair.a.counters.rp_cnp_handled, 0u);
  }
}

// A WRITE at a rate whose packet interval is longer than a round trip and, in the second case, than
// the wait for a probe after a loss.
TEST(CongestionRateTest, ASlowSenderRepeatsNothingThatWasNotLost) {
  constexpr uint32_t kPackets = 200, kLost = 20;
  for (const bool loses : {false, true}) {
    const uint32_t rate = loses ? 100 : 20;  // Mb/s; half of it after a CNP
    const DcqcnParameters parameters = {.rpg_time_reset = 1'000'000,
                                        .rpg_byte_reset = 0,
                                        .rpg_ai_rate = 1,
                                        .rpg_min_rate = rate / 2,
                                        .rpg_max_rate = rate};
    TestPair pair(IBV_QPT_RC, nullptr, false, &parameters);
    uint32_t data = 0;
    pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
      pair.now_ns += 500;
      if (!from_a || packet.info->operation != Operation::kWrite) return PacketAction::kDeliver;
      if (data++ == 0) MarkCe(packet, frame);
      return loses && data == kLost ? PacketAction::kDrop : PacketAction::kDeliver;
    };
    for (const uint32_t bytes : {100u, kPackets * 1024}) {
      pair.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair.a.memory.data(), bytes,
                      reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
      pair.RunToEnd();
      EXPECT_EQ(pair.a.Poll().size(), 1u);
    }
    EXPECT_EQ(pair.a.counters.rp_cnp_handled, 1u);
    EXPECT_EQ(pair.a.counters.tail_probes, 0u) << rate;
    // The lost packet and the next, by which the peer has noticed it.
    EXPECT_EQ(pair.a.counters.retransmitted_pkts, loses ? 2u : 0u) << rate;
  }
}

// READ responses are the responder's data: marks on them slow it down, and acknowledgements pass.
TEST(CongestionReadTest, ReadResponsesAreSlowedDown) {
  TestPair pair(IBV_QPT_RC, nullptr, false, &kOn);
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (!from_a && packet.info->operation == Operation::kReadResponse) MarkCe(packet, frame);
    return PacketAction::kDeliver;
  };
  pair.a.PostSend(IBV_WR_RDMA_READ, 1, pair.a.memory.data(), 300'000,
                  reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  pair.RunToEnd();
  EXPECT_EQ(pair.a.Poll().size(), 1u);
  EXPECT_GT(pair.b.counters.rp_cnp_handled, 1u);
  EXPECT_GT(pair.a.counters.np_cnp_sent, 1u);
  EXPECT_EQ(pair.b.counters.np_cnp_sent, 0u);
}

}  // namespace
}  // namespace pollux::transport
