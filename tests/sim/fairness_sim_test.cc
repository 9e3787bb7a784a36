// One queue pair with bulk beside a thousand with small messages, from one port, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "tests/sim/connect.h"
#include "tests/sim/simulation.h"
#include "tools/histogram.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kSmallPairs = 1'000;
constexpr uint32_t kSmallBytes = 64;
constexpr uint32_t kBulkBytes = 1u << 20;
constexpr uint32_t kBulkAtOnce = 4;
constexpr uint32_t kReceives = 2 * kSmallPairs;
constexpr uint64_t kBitsPerSecond = 25'000'000'000;
constexpr uint64_t kRunNs = 20'000'000;

// Both ends' queue pairs: [0] is the bulk's.
struct Host {
  explicit Host(Node& at) : node(at), worker(at.worker()) {
    pd = worker.AllocPd().value();
    cq = worker.CreateCq(8 * kSmallPairs).value();
    srq = worker.CreateSrq(pd, {.max_wr = kReceives, .max_sge = 1, .srq_limit = 0}).value();
    region = worker
                 .RegMr(pd, memory.data(), memory.size(),
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
                 .value();
    for (uint32_t i = 0; i < kReceives; ++i) Receive();
    for (uint32_t i = 0; i <= kSmallPairs; ++i) {
      verbs::QueuePairInitAttr init;
      init.pd = pd;
      init.send_cq = init.recv_cq = cq;
      init.srq = srq;
      init.cap.max_send_wr = kBulkAtOnce;
      init.cap.max_send_sge = 1;
      qps.push_back(worker.CreateQp(std::move(init)).value());
    }
  }
  ~Host() {
    for (verbs::QueuePair* qp : qps) EXPECT_TRUE(worker.DestroyQp(qp).ok());
    EXPECT_TRUE(worker.DeregMr(region).ok());
    EXPECT_TRUE(worker.DestroySrq(srq).ok());
    EXPECT_TRUE(worker.DestroyCq(cq).ok());
    EXPECT_TRUE(worker.DeallocPd(pd).ok());
  }

  void Connect(const Host& peer) {
    ibv_qp_attr attr{};
    attr.path_mtu = IBV_MTU_1024;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.min_rnr_timer = 1;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    for (size_t i = 0; i < qps.size(); ++i) {
      const absl::Status status = BringToRts(node, qps[i], peer.node, peer.qps[i]->qpn(), attr);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  void Receive() {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), kSmallBytes, region.key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EXPECT_EQ(srq->PostRecv(&wr, nullptr), 0);
  }

  Node& node;
  engine::Worker& worker;
  memory::ProtectionDomain* pd;
  verbs::CompletionQueue* cq;
  verbs::SharedReceiveQueue* srq;
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBulkBytes);
  memory::MemoryRegion region;
  std::vector<verbs::QueuePair*> qps;
};

// Keeps a message under way on each small queue pair, and kBulkAtOnce WRITEs on the other.
class Sender : public engine::Poller {
 public:
  Sender(Host& own, const Host& peer, bool bulk) : own_(own), peer_(peer), bulk_(bulk) {
    own_.worker.AddPoller(this);
  }
  ~Sender() override { own_.worker.RemovePoller(this); }

  bool Poll(uint64_t now_ns) override {
    if (!std::exchange(started_, true)) Start(now_ns);
    ibv_wc wc[32];
    const int n = own_.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
      const auto pair = static_cast<uint32_t>(wc[i].wr_id);
      ++messages[pair];
      if (pair != 0) latency_ns.Record(now_ns - begun_ns_[pair]);
      if (!stopped) Post(pair, now_ns);
      under_way -= stopped ? 1 : 0;
    }
    return n > 0;
  }

  tools::Histogram latency_ns;                                              // of small messages
  std::vector<uint64_t> messages = std::vector<uint64_t>(1 + kSmallPairs);  // that have completed
  bool stopped = false;
  uint32_t under_way = 0;

 private:
  void Start(uint64_t now_ns) {
    for (uint32_t i = 0; bulk_ && i < kBulkAtOnce; ++i) Post(0, now_ns);
    for (uint32_t pair = 1; pair <= kSmallPairs; ++pair) Post(pair, now_ns);
    under_way = kSmallPairs + (bulk_ ? kBulkAtOnce : 0);
  }
  void Post(uint32_t pair, uint64_t now_ns) {
    begun_ns_[pair] = now_ns;
    ibv_sge sge{reinterpret_cast<uint64_t>(own_.memory.data()),
                pair == 0 ? kBulkBytes : kSmallBytes, own_.region.key};
    ibv_send_wr wr{};
    wr.wr_id = pair;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = pair == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(peer_.memory.data()),
                  .rkey = peer_.region.key};
    EXPECT_EQ(own_.qps[pair]->PostSend(&wr, nullptr), 0);
  }

  Host& own_;
  const Host& peer_;
  const bool bulk_;
  bool started_ = false;
  std::vector<uint64_t> begun_ns_ = std::vector<uint64_t>(1 + kSmallPairs);
};

class Sink : public engine::Poller {
 public:
  explicit Sink(Host& own) : own_(own) { own_.worker.AddPoller(this); }
  ~Sink() override { own_.worker.RemovePoller(this); }
  bool Poll(uint64_t) override {
    ibv_wc wc[32];
    const int n = own_.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) own_.Receive();
    return n > 0;
  }

 private:
  Host& own_;
};

struct Outcome {
  std::vector<uint64_t> messages;
  uint64_t median_ns = 0, p99_ns = 0;
};

Outcome Measure(bool bulk) {
  Outcome outcome;
  Simulation simulation(
      1, {.min_delay_ns = 5'000, .max_delay_ns = 5'000, .bits_per_second = kBitsPerSecond});
  const NodeOptions options = {.packet_buffers = 16383, .max_queue_pairs = kSmallPairs + 2};
  Node& a = simulation.AddNode(options);
  Node& b = simulation.AddNode(options);
  EXPECT_TRUE(FindEachOther(simulation, a, b));
  {
    Host at_a(a), at_b(b);
    at_a.Connect(at_b);
    at_b.Connect(at_a);
    Sink sink(at_b);
    auto sender = std::make_unique<Sender>(at_a, at_b, bulk);
    simulation.RunFor(kRunNs);
    sender->stopped = true;
    outcome.messages = sender->messages;
    EXPECT_TRUE(simulation.RunUntil([&] { return sender->under_way == 0; },
                                    simulation.now_ns() + Simulation::kSecond));
    outcome.median_ns = sender->latency_ns.Percentile(0.5);
    outcome.p99_ns = sender->latency_ns.Percentile(0.99);
  }
  EXPECT_EQ(simulation.Leaks(), "");
  return outcome;
}

TEST(FairnessSimTest, BulkStarvesNoSmallMessagesAndTheyDoNotStarveIt) {
  ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok());
  const Outcome alone = Measure(false);
  const Outcome beside = Measure(true);
  const auto small_of = [](const Outcome& outcome) {
    const auto [least, most] =
        std::minmax_element(outcome.messages.begin() + 1, outcome.messages.end());
    return std::pair(*least, *most);
  };
  const auto [least_alone, most_alone] = small_of(alone);
  const auto [least, most] = small_of(beside);
  // They take turns: none gets ahead of another by more than one turn in eight.
  EXPECT_GE(least_alone, most_alone * 7 / 8);
  EXPECT_GE(least, most * 7 / 8);
  EXPECT_GT(least, 0u);
  // The bulk gets as much of the wire as it would have to share with ten thousand more of them.
  EXPECT_GE(beside.messages[0] * kBulkBytes * 8, kBitsPerSecond / 10 * kRunNs / 1'000'000'000);
  EXPECT_LE(beside.p99_ns, 3 * alone.p99_ns);
  EXPECT_LE(beside.median_ns, 3 * alone.median_ns);
  RecordProperty("small_p99_alone_ns", std::to_string(alone.p99_ns));
  RecordProperty("small_p99_beside_bulk_ns", std::to_string(beside.p99_ns));
}

}  // namespace
}  // namespace pollux::sim
