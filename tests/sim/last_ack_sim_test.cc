// What a queue pair has completed it has acknowledged before it goes, however many go at once and
// when acknowledgements are lost: no other would.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/transport/rc/rc_responder.h"
#include "stack/wire/roce_packet.h"
#include "tests/sim/peer.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

// More than have their turn to send in one poll.
constexpr size_t kPairs = 24;
constexpr uint32_t kBytes = 64;
constexpr uint64_t kDelayNs = 10'000;
constexpr Conditions kGood = {.min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs};
constexpr Conditions kLost = {.loss = 1, .min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs};

enum class End : uint8_t { kDestroyed, kError, kReset };

class LastAckSimTest : public ::testing::TestWithParam<End> {
 protected:
  static void PostReceive(Peer& peer, std::vector<uint8_t>& memory) {
    const auto region =
        peer.node->worker().RegMr(peer.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_TRUE(region.ok()) << region.status();
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), kBytes, region->key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    const ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(peer.qp->PostRecv(&wr, &bad), 0);
  }
  static void PostSend(Peer& peer, std::vector<uint8_t>& memory) {
    const auto region = peer.node->worker().RegMr(peer.pd, memory.data(), memory.size(), 0);
    ASSERT_TRUE(region.ok()) << region.status();
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), kBytes, region->key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(peer.qp->PostSend(&wr, nullptr), 0);
  }
  static void Leave(Peer& peer) {
    engine::Worker& worker = peer.node->worker();
    ibv_qp_attr attr{};
    attr.qp_state = GetParam() == End::kReset ? IBV_QPS_RESET : IBV_QPS_ERR;
    const absl::Status status = GetParam() == End::kDestroyed
                                    ? worker.DestroyQp(peer.qp)
                                    : worker.ModifyQp(peer.qp, attr, IBV_QP_STATE);
    EXPECT_TRUE(status.ok()) << status;
  }

  // Of each receiver's acknowledgements the first `lost_acks` are lost.
  static void Run(int lost_acks) {
    ASSERT_TRUE(engine::InitEal().ok());
    Simulation simulation(1, kGood);
    Node& here = simulation.AddNode();
    Node& there = simulation.AddNode();
    std::array<Peer, kPairs> senders, receivers;
    std::vector<uint8_t> from(kBytes, 1), to(kBytes);
    for (size_t i = 0; i < kPairs; ++i) {
      senders[i].Create(here);
      receivers[i].Create(there);
      senders[i].Connect(receivers[i]);
      receivers[i].Connect(senders[i]);
    }
    simulation.RunFor(Simulation::kSecond);  // they find each other
    std::map<Qpn, int> acks;
    simulation.fabric().SetTap([&](const FabricPort&, const rte_mbuf& frame) {
      wire::RocePacket packet;
      const bool loses = wire::ParseRocePacket(rte_pktmbuf_mtod(&frame, const uint8_t*),
                                               frame.data_len, &packet) == wire::ParseResult::kOk &&
                         packet.info->operation == wire::Operation::kAck &&
                         acks[packet.bth.dest_qpn]++ < lost_acks;
      simulation.fabric().SetConditions(loses ? kLost : kGood);
    });
    for (size_t i = 0; i < kPairs; ++i) {
      PostReceive(receivers[i], to);
      PostSend(senders[i], from);
    }
    const auto all_have = [](const std::array<Peer, kPairs>& peers) {
      return std::ranges::all_of(peers, [](const Peer& peer) { return peer.cq->size() == 1; });
    };
    const uint64_t limit_ns = simulation.now_ns() + 10 * Simulation::kSecond;
    ASSERT_TRUE(simulation.RunUntil([&] { return all_have(receivers); }, limit_ns));
    for (Peer& peer : receivers) Leave(peer);
    ASSERT_TRUE(simulation.RunUntil([&] { return all_have(senders); }, limit_ns));
    for (Peer& peer : senders) {
      ibv_wc wc{};
      ASSERT_EQ(peer.cq->Poll(1, &wc), 1);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    }
  }
};

TEST_P(LastAckSimTest, IsSent) { Run(0); }

TEST_P(LastAckSimTest, AllCopiesButOneMayBeLost) { Run(transport::RcResponder::kLastAcks - 1); }

INSTANTIATE_TEST_SUITE_P(Ways, LastAckSimTest,
                         ::testing::Values(End::kDestroyed, End::kError, End::kReset));

}  // namespace
}  // namespace pollux::sim
