// The loss of a whole window, in virtual time: made good within the time-out and two round trips.
// At path MTU 1024 packets bound the window, at 4096 bytes do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/transport/rc/in_flight_window.h"
#include "stack/transport/rc/rc_requester.h"
#include "stack/transport/rc/retransmission_timeout.h"
#include "stack/transport/rc/send_cursor.h"
#include "tests/sim/peer.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr uint64_t kDelayNs = 20'000;  // of each frame, one way
constexpr uint64_t kRoundTripNs = 2 * kDelayNs;
constexpr Conditions kGood = {.min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs};
constexpr Conditions kNothingArrives = {
    .loss = 1, .min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs};

enum class Lost : uint8_t { kRequests, kAnswers };

// Packets of a large message.
uint32_t WindowOf(ibv_mtu path_mtu) {
  transport::InFlightWindow limit;
  limit.Reset(128u << path_mtu);
  return limit.packets(true);
}

class WindowLossSimTest
    : public ::testing::TestWithParam<std::tuple<ibv_wr_opcode, Lost, ibv_mtu>> {
 protected:
  WindowLossSimTest()
      : window_(WindowOf(std::get<2>(GetParam()))),
        window_bytes_(window_ * (128u << std::get<2>(GetParam()))),
        data_(window_bytes_),
        memory_(window_bytes_) {
    std::iota(data_.begin(), data_.end(), uint8_t{1});
    for (size_t i = 0; i < data_.size(); ++i) data_[i] ^= static_cast<uint8_t>(i / 777);
  }

  static ibv_qp_attr Attributes() {
    ibv_qp_attr attr = Peer::DefaultAttr();
    attr.path_mtu = std::get<2>(GetParam());
    return attr;
  }

  void Start(Simulation& simulation, const ibv_qp_attr& attr) {
    a_.Create(simulation.AddNode());
    b_.Create(simulation.AddNode());
    a_.Connect(b_, attr);
    b_.Connect(a_, attr);
    simulation.RunFor(Simulation::kSecond);  // they find each other
    const bool read = std::get<0>(GetParam()) == IBV_WR_RDMA_READ;
    std::vector<uint8_t>& near = read ? memory_ : data_;
    std::vector<uint8_t>& far = read ? data_ : memory_;
    local_ =
        a_.node->worker().RegMr(a_.pd, near.data(), near.size(), IBV_ACCESS_LOCAL_WRITE).value();
    remote_ = b_.node->worker()
                  .RegMr(b_.pd, far.data(), far.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
                  .value();
    near_ = near.data();
    far_ = far.data();
  }

  void Post(uint32_t bytes) {
    ibv_sge sge{reinterpret_cast<uint64_t>(near_), bytes, local_.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = std::get<0>(GetParam());
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(far_), .rkey = remote_.key};
    ASSERT_EQ(a_.qp->PostSend(&wr, nullptr), 0);
  }

  // How long until the one that is posted has completed well.
  uint64_t Completed(Simulation& simulation, uint64_t since_ns) {
    EXPECT_TRUE(simulation.RunUntil([&] { return a_.cq->size() == 1; },
                                    simulation.now_ns() + 10 * Simulation::kSecond));
    ibv_wc wc{};
    EXPECT_EQ(a_.cq->Poll(1, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    return simulation.now_ns() - since_ns;
  }

  const uint32_t window_;  // packets
  const uint32_t window_bytes_;
  std::vector<uint8_t> data_, memory_;
  Peer a_, b_;
  memory::MemoryRegion local_, remote_;
  uint8_t* near_ = nullptr;
  uint8_t* far_ = nullptr;
};

std::string NameOf(const ::testing::TestParamInfo<WindowLossSimTest::ParamType>& info) {
  const auto [opcode, lost, path_mtu] = info.param;
  return std::string(opcode == IBV_WR_RDMA_READ ? "Read" : "Write") +
         (lost == Lost::kRequests ? "Requests" : "Answers") + std::to_string(128u << path_mtu);
}

INSTANTIATE_TEST_SUITE_P(All, WindowLossSimTest,
                         ::testing::Combine(::testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ),
                                            ::testing::Values(Lost::kRequests, Lost::kAnswers),
                                            ::testing::Values(IBV_MTU_1024, IBV_MTU_4096)),
                         NameOf);

TEST(WindowTest, BytesLimitTheWindowOfLongPackets) {
  EXPECT_EQ(WindowOf(IBV_MTU_1024), transport::InFlightWindow::kMax);
  EXPECT_LT(WindowOf(IBV_MTU_4096), transport::InFlightWindow::kMax);
}

TEST_P(WindowLossSimTest, IsRepairedWithinTheTimeoutAndTwoRoundTrips) {
  ASSERT_TRUE(engine::InitEal().ok());
  Simulation simulation(1, kGood);
  const ibv_qp_attr attr = Attributes();
  Start(simulation, attr);
  Post(1);  // by which the round trip is known
  EXPECT_EQ(Completed(simulation, simulation.now_ns()), kRoundTripNs);

  const uint64_t start_ns = simulation.now_ns();
  const uint64_t lost_before = simulation.fabric().counters().lost;
  if (std::get<1>(GetParam()) == Lost::kRequests) {
    simulation.fabric().SetConditions(kNothingArrives);
    Post(window_bytes_);
    simulation.RunFor(kDelayNs / 2);
  } else {
    Post(window_bytes_);
    simulation.RunFor(kDelayNs / 2);
    simulation.fabric().SetConditions(kNothingArrives);
    simulation.RunFor(kDelayNs);  // they arrive, and are answered
  }
  // All that was sent, but where a READ's request is one packet and a WRITE's answer few.
  const bool many = (std::get<0>(GetParam()) == IBV_WR_RDMA_WRITE) ==
                    (std::get<1>(GetParam()) == Lost::kRequests);
  EXPECT_GE(simulation.fabric().counters().lost - lost_before, many ? window_ : 1);
  simulation.fabric().SetConditions(kGood);
  const uint64_t timeout_ns = uint64_t{4'096} << attr.timeout;
  EXPECT_LE(Completed(simulation, start_ns), timeout_ns + 2 * kRoundTripNs);
  EXPECT_TRUE(std::equal(data_.begin(), data_.end(), memory_.begin()));
  EXPECT_GT(
      a_.node->worker().counters().retransmitted() + b_.node->worker().counters().retransmitted(),
      0u);
  EXPECT_EQ(simulation.Leaks(), "");
}

// A round trip that was measured makes the requester ask long before the time-out: two probes at
// the most, or one for each READ request that the window is made of (ReadRequestPackets()), and
// what each asks for comes within a round trip.
TEST_P(WindowLossSimTest, IsProbedForBeforeTheTimeout) {
  ASSERT_TRUE(engine::InitEal().ok());
  Simulation simulation(2, kGood);
  Start(simulation, Attributes());
  Post(1);
  Completed(simulation, simulation.now_ns());
  const uint64_t start_ns = simulation.now_ns();
  simulation.fabric().SetConditions(kNothingArrives);
  Post(window_bytes_);
  simulation.RunFor(kDelayNs / 2);
  simulation.fabric().SetConditions(kGood);
  uint32_t probes = 2;
  if (std::get<0>(GetParam()) == IBV_WR_RDMA_READ) {
    const uint32_t asked =
        transport::ReadRequestPackets(Attributes().max_rd_atomic, window_bytes_ / window_);
    probes = std::max(probes, (window_ + asked - 1) / asked);
  }
  constexpr uint64_t kTickNs = 1u << engine::TimingWheel::kTickShift;
  EXPECT_LE(Completed(simulation, start_ns),
            probes * (transport::RetransmissionTimeout::kMinProbeNs + kRoundTripNs + kTickNs));
  EXPECT_EQ(a_.node->worker().counters().local_ack_timeout_err, 0u);
  EXPECT_EQ(simulation.Leaks(), "");
}

}  // namespace
}  // namespace pollux::sim
