// What loss costs long READs, in virtual time: hardly more than what was lost is sent again, a lost
// repetition does not wait for the local ACK timeout, and the requests of a READ are repaired side
// by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/transport/rc/send_cursor.h"
#include "tests/sim/peer.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kReads = 8;
constexpr uint32_t kReadBytes = 1000 * kMtu - 10;
constexpr uint64_t kNeeded = uint64_t{kReads} * 1000;  // response packets

class ReadSimTest : public ::testing::TestWithParam<std::tuple<uint8_t, uint64_t>> {
 protected:
  uint8_t depth() const { return std::get<0>(GetParam()); }
  uint64_t seed() const { return std::get<1>(GetParam()); }

  // kReads READs by one host of the other's memory.
  void Run(const Conditions& conditions) {
    EXPECT_TRUE(engine::InitEal().ok());
    Simulation simulation(seed(), Conditions{});
    Peer a, b;
    a.Create(simulation.AddNode());
    b.Create(simulation.AddNode());
    ibv_qp_attr attr = Peer::DefaultAttr();
    attr.max_rd_atomic = attr.max_dest_rd_atomic = depth();
    a.Connect(b, attr);
    b.Connect(a, attr);
    simulation.RunFor(Simulation::kSecond);  // they find each other

    std::vector<uint8_t> source(kReadBytes), target(kReads * kReadBytes);
    std::iota(source.begin(), source.end(), uint8_t{1});
    for (size_t i = 0; i < source.size(); ++i) source[i] ^= static_cast<uint8_t>(i / 777);
    const auto remote =
        b.node->worker().RegMr(b.pd, source.data(), source.size(), IBV_ACCESS_REMOTE_READ).value();
    const auto local =
        a.node->worker().RegMr(a.pd, target.data(), target.size(), IBV_ACCESS_LOCAL_WRITE).value();
    const auto read = [&](uint32_t number, uint32_t length) {
      ibv_sge sge{reinterpret_cast<uint64_t>(target.data()) + number * kReadBytes, length,
                  local.key};
      ibv_send_wr wr{};
      wr.wr_id = number;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_RDMA_READ;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(source.data()), .rkey = remote.key};
      EXPECT_EQ(a.qp->PostSend(&wr, nullptr), 0);
    };
    ibv_wc wc[kReads];
    read(0, 1);  // by which the round trip is known
    simulation.RunFor(Simulation::kSecond);
    EXPECT_EQ(a.cq->Poll(kReads, wc), 1);

    simulation.fabric().SetConditions(conditions);
    const uint64_t begun_ns = simulation.now_ns();
    for (uint32_t i = 0; i < kReads; ++i) read(i, kReadBytes);
    EXPECT_TRUE(simulation.RunUntil([&] { return a.cq->size() == kReads; },
                                    simulation.now_ns() + 600 * Simulation::kSecond));
    took_ns_ = simulation.now_ns() - begun_ns;
    EXPECT_EQ(a.cq->Poll(kReads, wc), static_cast<int>(kReads));
    for (const ibv_wc& each : wc) EXPECT_EQ(each.status, IBV_WC_SUCCESS);
    for (uint32_t i = 0; i < kReads; ++i) {
      EXPECT_TRUE(std::equal(source.begin(), source.end(), target.begin() + i * kReadBytes)) << i;
    }
    requester_ = a.node->worker().counters();
    responder_ = b.node->worker().counters();
    EXPECT_EQ(simulation.Leaks(), "");
  }
  transport::Counters requester_, responder_;
  uint64_t took_ns_ = 0;  // in virtual time
};

INSTANTIATE_TEST_SUITE_P(DepthsAndSeeds, ReadSimTest,
                         ::testing::Combine(::testing::Values(1, 4, 16),
                                            ::testing::Range<uint64_t>(1, 6)));

TEST_P(ReadSimTest, NothingIsResentOnAPerfectNetwork) {
  Run({.bits_per_second = 25'000'000'000});
  EXPECT_EQ(requester_.retransmitted(), 0u);
  EXPECT_EQ(responder_.retransmitted(), 0u);
}

TEST_P(ReadSimTest, TenPercentLossResendsOnlyLostResponses) {
  Run({.loss = 0.1, .bits_per_second = 25'000'000'000});
  EXPECT_GT(responder_.retransmitted_responses, kNeeded / 20);
  EXPECT_LT(responder_.retransmitted_responses, kNeeded / 4);
  EXPECT_EQ(requester_.local_ack_timeout_err, 0u);
}

// An overtaken request is asked for again with all behind it, as any go-back-N.
TEST_P(ReadSimTest, OnePercentReorderingResendsLittle) {
  Run({.reordering = 0.01, .bits_per_second = 25'000'000'000});
  EXPECT_LT(responder_.retransmitted_responses, kNeeded / 4);
}

// As many requests of a READ at once as the window holds.
class WideReadSimTest : public ReadSimTest {};
INSTANTIATE_TEST_SUITE_P(Seeds, WideReadSimTest,
                         ::testing::Combine(::testing::Values(16),
                                            ::testing::Range<uint64_t>(1, 6)));

// Where the way is long and the wire fast, gaps cost round trips and nothing else. A request of 32
// packets has three or four at this loss, each repaired alone, and one in five repairs is lost as
// well; a window of requests passes in what its slowest takes: 8 round trips on the average. One
// gap after the other would be 30.
TEST_P(WideReadSimTest, LossesOfSeveralRequestsAreRepairedInParallel) {
  constexpr uint64_t kRoundTripNs = 2'000'000;
  Run({.loss = 0.1, .min_delay_ns = kRoundTripNs / 2, .max_delay_ns = kRoundTripNs / 2});
  constexpr uint32_t kWindow = transport::ReadWindow(kMtu);
  constexpr uint64_t kWindows = (kNeeded + kWindow - 1) / kWindow;
  EXPECT_LT(took_ns_ / kRoundTripNs, 10 * kWindows);
  EXPECT_EQ(requester_.local_ack_timeout_err, 0u);
}

}  // namespace
}  // namespace pollux::sim
