// Senders that share a marked bottleneck: each gets its share, the queue stays short, the link
// busy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "stack/engine/eal.h"
#include "tests/sim/peer.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint32_t kMessageBytes = 65'536;
constexpr uint32_t kDepth = 8;  // messages posted at a time: more than may be in flight
constexpr MarkedQueueOptions kQueue;

// Writes into the receiver's memory without end.
class Sender : public engine::Poller {
 public:
  Sender(Node& node, Peer& receiver, uint64_t remote, uint32_t rkey)
      : remote_(remote), rkey_(rkey), memory_(kMessageBytes) {
    peer_.Create(node, 2 * kDepth);
    key_ = node.worker()
               .RegMr(peer_.pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE)
               .value()
               .key;
    peer_.Connect(receiver);
    receiver.Connect(peer_);
  }
  ~Sender() override { peer_.node->worker().RemovePoller(this); }
  void Start() { peer_.node->worker().AddPoller(this); }
  uint32_t port() const { return peer_.node->port().index(); }

  bool Poll(uint64_t) override {
    ibv_wc wc{};
    while (peer_.cq->Poll(1, &wc) == 1) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      --posted_;
    }
    if (posted_ == kDepth) return false;
    for (; posted_ < kDepth; ++posted_) {
      ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()), kMessageBytes, key_};
      ibv_send_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma = {.remote_addr = remote_, .rkey = rkey_};
      EXPECT_EQ(peer_.qp->PostSend(&wr, nullptr), 0);
    }
    return true;
  }

 private:
  Peer peer_;
  uint64_t remote_;
  uint32_t rkey_;
  uint32_t key_;
  std::vector<uint8_t> memory_;
  uint32_t posted_ = 0;
};

// What went through the bottleneck in a window of time.
struct Outcome {
  double fairness;     // Jain's index of the bytes of each sender
  double utilisation;  // of the link
  uint64_t longest_bytes;
  uint64_t lost;
  uint64_t retransmitted;
};

double JainsIndex(const std::vector<uint64_t>& shares) {
  double sum = 0, squares = 0;
  for (const uint64_t share : shares) {
    sum += static_cast<double>(share);
    squares += static_cast<double>(share) * static_cast<double>(share);
  }
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

class Incast {
 public:
  Incast(uint64_t seed, size_t senders, const transport::DcqcnParameters* dcqcn)
      : simulation_(seed, {.min_delay_ns = 1'000, .max_delay_ns = 2'000}), memory_(kMessageBytes) {
    Node& node = AddNode(dcqcn);
    node.port().SetQueue(kQueue);
    for (size_t i = 0; i < senders; ++i) {
      receivers_.push_back(std::make_unique<Peer>());
      Peer& receiver = *receivers_.back();
      receiver.Create(node, 2);
      const memory::MemoryRegion region =
          node.worker()
              .RegMr(receiver.pd, memory_.data(), memory_.size(),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
              .value();
      senders_.push_back(std::make_unique<Sender>(
          AddNode(dcqcn), receiver, reinterpret_cast<uint64_t>(memory_.data()), region.key));
    }
    simulation_.RunFor(Simulation::kSecond);  // they find each other
    // The line of each sender is as fast as the bottleneck.
    Conditions conditions = simulation_.fabric().conditions();
    conditions.bits_per_second = kQueue.bits_per_second;
    simulation_.fabric().SetConditions(conditions);
  }
  ~Incast() { senders_.clear(); }

  // Starts senders [first, end), each at a moment of its own within 100 us.
  void Start(size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      simulation_.RunFor(simulation_.random().Below(100'000 / (end - first)));
      senders_[i]->Start();
    }
  }
  void RunFor(uint64_t duration_ns) { simulation_.RunFor(duration_ns); }
  Outcome Measure(uint64_t duration_ns) {
    MarkedQueue& queue = nodes_[0]->port().queue();
    queue.ResetCounters();
    simulation_.RunFor(duration_ns);
    const MarkedQueueCounters& counters = queue.counters();
    std::vector<uint64_t> shares;
    for (const auto& sender : senders_) {
      shares.push_back(
          sender->port() < counters.bytes_from.size() ? counters.bytes_from[sender->port()] : 0);
    }
    Outcome outcome;
    outcome.fairness = JainsIndex(shares);
    outcome.utilisation =
        static_cast<double>(counters.bytes) * 8e9 /
        (static_cast<double>(kQueue.bits_per_second) * static_cast<double>(duration_ns));
    outcome.longest_bytes = counters.longest_bytes;
    outcome.lost = counters.lost;
    outcome.retransmitted = 0;
    for (Node* node : nodes_) outcome.retransmitted += node->worker().counters().retransmitted();
    return outcome;
  }
  uint64_t Sum(uint64_t transport::Counters::*counter) const {
    uint64_t sum = 0;
    for (Node* node : nodes_) sum += node->worker().counters().*counter;
    return sum;
  }

 private:
  Node& AddNode(const transport::DcqcnParameters* dcqcn) {
    Node& node = simulation_.AddNode({.max_queue_pairs = 16, .max_regions = 64});
    if (dcqcn != nullptr) node.worker().EnableDcqcn(*dcqcn);
    nodes_.push_back(&node);
    return node;
  }

  Simulation simulation_;
  std::vector<uint8_t> memory_;
  std::vector<Node*> nodes_;  // the receiver first
  std::vector<std::unique_ptr<Peer>> receivers_;
  std::vector<std::unique_ptr<Sender>> senders_;
};

transport::DcqcnParameters Parameters() {
  transport::DcqcnParameters parameters;
  parameters.rpg_max_rate = kQueue.bits_per_second / 1'000'000;
  return parameters;
}
// What DCQCN is to keep the queue below: little more than where the switch marks every packet.
constexpr uint64_t kQueueBound = kQueue.max_bytes * 3 / 2;

class CongestionSimTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  CongestionSimTest() { EXPECT_TRUE(engine::InitEal().ok()); }
  static void ExpectShared(const Outcome& outcome) {
    EXPECT_GT(outcome.fairness, 0.95);
    EXPECT_GT(outcome.utilisation, 0.95);
    EXPECT_LT(outcome.longest_bytes, kQueueBound);
    EXPECT_EQ(outcome.lost, 0u);
    EXPECT_EQ(outcome.retransmitted, 0u);
  }
  const transport::DcqcnParameters parameters_ = Parameters();
};

INSTANTIATE_TEST_SUITE_P(Seeds, CongestionSimTest, ::testing::Range<uint64_t>(1, 6));

TEST_P(CongestionSimTest, EightSendersShareTheLink) {
  Incast incast(GetParam(), 8, &parameters_);
  incast.Start(0, 8);
  incast.RunFor(15 * kMs);
  ExpectShared(incast.Measure(25 * kMs));
  EXPECT_GT(incast.Sum(&transport::Counters::np_ecn_marked_roce_packets), 0u);
  EXPECT_EQ(incast.Sum(&transport::Counters::np_cnp_sent),
            incast.Sum(&transport::Counters::rp_cnp_handled));
}

TEST_P(CongestionSimTest, LateSendersGetAFairShare) {
  Incast incast(GetParam(), 8, &parameters_);
  incast.Start(0, 4);
  incast.RunFor(10 * kMs);
  incast.Start(4, 8);
  incast.RunFor(20 * kMs);
  ExpectShared(incast.Measure(25 * kMs));
}

// The bound is DCQCN's doing: without it the queue holds all that may be in flight.
TEST_P(CongestionSimTest, WithoutDcqcnTheQueueGrows) {
  Incast incast(GetParam(), 8, nullptr);
  incast.Start(0, 8);
  incast.RunFor(2 * kMs);
  EXPECT_GT(incast.Measure(2 * kMs).longest_bytes, 2 * kQueueBound);
}

}  // namespace
}  // namespace pollux::sim
