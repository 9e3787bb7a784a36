// One queue pair with bulk beside a thousand with small messages, from one port, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "tests/sim/connect.h"
#include "tests/sim/simulation.h"
#include "tools/common/histogram.h"

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
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
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

  void Connect(const Host& peer, ibv_mtu path_mtu) {
    ibv_qp_attr attr{};
    attr.path_mtu = path_mtu;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;  // as much as the window holds
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

// Keeps bulk under way on the one queue pair that it is for, from memory to memory of the hosts.
class Bulk {
 public:
  Bulk(Host& own, const Host& peer, ibv_wr_opcode opcode)
      : own_(own), peer_(peer), opcode_(opcode) {}
  void Post() {
    ibv_sge sge{reinterpret_cast<uint64_t>(own_.memory.data()), kBulkBytes, own_.region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode_;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(peer_.memory.data()),
                  .rkey = peer_.region.key};
    EXPECT_EQ(own_.qps[0]->PostSend(&wr, nullptr), 0);
    ++under_way;
  }
  void Start() {
    for (uint32_t i = 0; i < kBulkAtOnce; ++i) Post();
  }
  void Completed() {
    --under_way;
    ++done;
    if (!stopped) Post();
  }

  uint64_t done = 0;
  uint32_t under_way = 0;
  bool stopped = false;

 private:
  Host& own_;
  const Host& peer_;
  const ibv_wr_opcode opcode_;
};

// Polls an end: keeps a message under way on each small queue pair where it `sends`, else takes
// them; and tells the bulk, if it is this end that has asked for it.
class End : public engine::Poller {
 public:
  End(Host& own, bool sends, Bulk* bulk) : own_(own), sends_(sends), bulk_(bulk) {
    own_.worker.AddPoller(this);
  }
  ~End() override { own_.worker.RemovePoller(this); }

  bool Poll(uint64_t now_ns) override {
    if (!std::exchange(started_, true)) Start(now_ns);
    ibv_wc wc[32];
    const int n = own_.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
      if (wc[i].opcode == IBV_WC_RECV) {
        own_.Receive();
      } else if (wc[i].opcode == IBV_WC_SEND) {
        Sent(static_cast<uint32_t>(wc[i].wr_id), now_ns);
      } else {
        bulk_->Completed();
      }
    }
    return n > 0;
  }

  tools::Histogram latency_ns;                                              // of small messages
  std::vector<uint64_t> messages = std::vector<uint64_t>(1 + kSmallPairs);  // that have completed
  bool stopped = false;
  uint32_t under_way = 0;

 private:
  void Start(uint64_t now_ns) {
    if (bulk_ != nullptr) bulk_->Start();
    for (uint32_t pair = 1; sends_ && pair <= kSmallPairs; ++pair) Post(pair, now_ns);
  }
  void Sent(uint32_t pair, uint64_t now_ns) {
    --under_way;
    ++messages[pair];
    latency_ns.Record(now_ns - begun_ns_[pair]);
    if (!stopped) Post(pair, now_ns);
  }
  void Post(uint32_t pair, uint64_t now_ns) {
    begun_ns_[pair] = now_ns;
    const ibv_sge sge{reinterpret_cast<uint64_t>(own_.memory.data()), kSmallBytes, own_.region.key};
    EXPECT_EQ(own_.qps[pair]->PostOneSend(pair, sge, IBV_SEND_SIGNALED, 0), 0);
    ++under_way;
  }

  Host& own_;
  const bool sends_;
  Bulk* const bulk_;
  bool started_ = false;
  std::vector<uint64_t> begun_ns_ = std::vector<uint64_t>(1 + kSmallPairs);
};

struct Outcome {
  std::vector<uint64_t> messages;
  uint64_t bulk_messages = 0;
  uint64_t median_ns = 0, p99_ns = 0;
};

enum class Beside { kNothing, kWrites, kReads };

// The small messages go from a to b, and so does the bulk, which a writes or b reads.
Outcome Measure(Beside beside, ibv_mtu path_mtu) {
  Outcome outcome;
  Simulation simulation(
      1, {.min_delay_ns = 5'000, .max_delay_ns = 5'000, .bits_per_second = kBitsPerSecond});
  const NodeOptions options = {.packet_buffers = 16383, .max_queue_pairs = kSmallPairs + 2};
  Node& a = simulation.AddNode(options);
  Node& b = simulation.AddNode(options);
  EXPECT_TRUE(FindEachOther(simulation, a, b));
  {
    Host at_a(a), at_b(b);
    at_a.Connect(at_b, path_mtu);
    at_b.Connect(at_a, path_mtu);
    Bulk bulk = beside == Beside::kReads ? Bulk(at_b, at_a, IBV_WR_RDMA_READ)
                                         : Bulk(at_a, at_b, IBV_WR_RDMA_WRITE);
    End receiver(at_b, false, beside == Beside::kReads ? &bulk : nullptr);
    auto sender = std::make_unique<End>(at_a, true, beside == Beside::kWrites ? &bulk : nullptr);
    simulation.RunFor(kRunNs);
    sender->stopped = bulk.stopped = true;
    outcome.messages = sender->messages;
    outcome.bulk_messages = bulk.done;
    EXPECT_TRUE(simulation.RunUntil([&] { return sender->under_way == 0 && bulk.under_way == 0; },
                                    simulation.now_ns() + Simulation::kSecond));
    outcome.median_ns = sender->latency_ns.Percentile(0.5);
    outcome.p99_ns = sender->latency_ns.Percentile(0.99);
  }
  EXPECT_EQ(simulation.Leaks(), "");
  return outcome;
}

class FairnessSimTest : public ::testing::TestWithParam<std::tuple<Beside, ibv_mtu>> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok()); }
};

TEST_P(FairnessSimTest, BulkAndSmallMessagesDoNotStarveEachOther) {
  const auto [bulk, path_mtu] = GetParam();
  const Outcome alone = Measure(Beside::kNothing, path_mtu);
  const Outcome beside = Measure(bulk, path_mtu);
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
  EXPECT_GE(beside.bulk_messages * kBulkBytes * 8, kBitsPerSecond / 10 * kRunNs / 1'000'000'000);
  EXPECT_LE(beside.p99_ns, 3 * alone.p99_ns);
  EXPECT_LE(beside.median_ns, 3 * alone.median_ns);
  RecordProperty("small_p99_alone_ns", std::to_string(alone.p99_ns));
  RecordProperty("small_p99_beside_bulk_ns", std::to_string(beside.p99_ns));
}

INSTANTIATE_TEST_SUITE_P(Bulk, FairnessSimTest,
                         ::testing::Combine(::testing::Values(Beside::kWrites, Beside::kReads),
                                            ::testing::Values(IBV_MTU_1024, IBV_MTU_4096)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Beside::kWrites
                                                  ? "Writes"
                                                  : "Reads") +
                                  (std::get<1>(info.param) == IBV_MTU_1024 ? "1024" : "4096");
                         });

}  // namespace
}  // namespace pollux::sim
